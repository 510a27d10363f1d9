import Glibc
import TransferSimulation

var problem = ""
guard let program = Program(arguments: Array(CommandLine.arguments.dropFirst()), problem: &problem) else {
  print(problem)
  print(Program.help)
  exit(64)
}
exit(program.run(afterEachSeed: { fflush(nil) }))
