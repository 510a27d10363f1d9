import Glibc

exit(FerryProgram.run(Array(CommandLine.arguments.dropFirst())).rawValue)
