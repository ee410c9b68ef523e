// Workers are files of this origin; the one policy of the page lets these two addresses pass and no other.
import layoutAddress from "./layout.worker?worker&url";
import paintAddress from "./paint.worker?worker&url";

interface Policy {
  createScriptURL(address: string): string;
}
interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL(address: string): string }): Policy;
}

const known = new Set([layoutAddress, paintAddress]);
const trusted = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes;
const rules = {
  createScriptURL(address: string): string {
    if (!known.has(address)) throw new TypeError("this is no worker of the explorer");
    return address;
  },
};
const policy: Policy = trusted?.createPolicy("omnigraph-worker", rules) ?? rules;

const started = (address: string) => new Worker(policy.createScriptURL(address), { type: "module" });

export const newPainter = () => started(paintAddress);
export const newLayout = () => started(layoutAddress);
