import Glibc
import TransferDaemon

exit(DaemonProgram.run(CommandLine.arguments))
