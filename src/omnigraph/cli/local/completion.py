"""`omnigraph completion`: what a shell needs to complete command lines."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.register import add

Shell = Literal["bash", "zsh", "fish"]

#: Each asks `omnigraph __complete WORD…`, whose last word is the one being typed. Where that finds
#: nothing, the shell completes names of files.
SCRIPTS: Final[dict[Shell, str]] = {
    "bash": """\
# Completion of omnigraph for bash: eval "$(omnigraph completion bash)"
_omnigraph() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(omnigraph __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _omnigraph omnigraph
""",
    "zsh": """\
#compdef omnigraph
# Completion of omnigraph for zsh: eval "$(omnigraph completion zsh)"
_omnigraph() {
    local -a found
    found=(${(f)"$(omnigraph __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#found} )); then
        compadd -a found
    else
        _files
    fi
}
compdef _omnigraph omnigraph
""",
    "fish": """\
# Completion of omnigraph for fish 3.4 or newer: omnigraph completion fish | source
complete -c omnigraph -a '(omnigraph __complete (commandline -opc)[2..-1] "$(commandline -ct)" 2>/dev/null)'
""",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "completion", completion)


def completion(
    call: Call, shell: Annotated[Shell, typer.Argument(help="The shell to complete in.")]
) -> None:
    """Print the script that makes a shell complete omnigraph command lines."""
    call.answer({"shell": shell, "script": SCRIPTS[shell]}, SCRIPTS[shell])
