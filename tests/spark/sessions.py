"""How sessions of tests are set, so that they start soon."""

# The code of Spark needs neither much compiling nor any checking: most of it runs once.
QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
# Every job is small, so compiling its queries takes longer than running them. Tests on the cluster
# compile theirs, as users do.
QUICK_START = {
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Where a test starts a server of Spark Connect: at a free port.
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}
