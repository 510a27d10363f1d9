import Glibc
import TransferSimulation

var problem = ""
guard var program = Program(arguments: Array(CommandLine.arguments.dropFirst()), problem: &problem) else {
  print(problem)
  print(Program.help)
  exit(64)
}
if program.commit == nil, let name = unsafe getenv("FERRY_COMMIT") { program.commit = unsafe String(cString: name) }
exit(program.run(afterEachSeed: { fflush(nil) }))
