import FuzzTargets
import Glibc

// The program is libFuzzer's own (llvm.org/docs/LibFuzzer.html); it calls these two. See scripts/fuzz.

/// FERRY_FUZZ_TARGET names the target; `list` prints each with its longest input, in bytes.
private nonisolated let target: FuzzTarget = {
  let name = unsafe getenv("FERRY_FUZZ_TARGET").map { unsafe String(cString: $0) } ?? "list"
  if let target = FuzzTarget(rawValue: name) { return target }
  for target in FuzzTarget.allCases { print("\(target.rawValue) \(target.longestInput)") }
  exit(name == "list" ? 0 : 64)
}()

/// Chooses the target before the first input.
@_cdecl("LLVMFuzzerInitialize")
public nonisolated func initialize(_ count: UnsafeMutableRawPointer?, _ arguments: UnsafeMutableRawPointer?) -> Int32 {
  _ = target
  return 0
}

/// One input; a finding ends the process, as a trap does.
@_cdecl("LLVMFuzzerTestOneInput")
public nonisolated func testOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> Int32 {
  let input = unsafe Array(UnsafeBufferPointer(start: bytes, count: count))
  do {
    try target.run(input)
  } catch {
    fatalError("finding in \(target.rawValue): \(error)")
  }
  return 0
}
