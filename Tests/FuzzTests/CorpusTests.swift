import Foundation
import FuzzTargets
import Testing

/// Every input that is kept, through its target again: seeds, and whatever once crashed.
@Suite struct CorpusTests {
  static let corpus = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appendingPathComponent("Fuzz/Corpus")

  @Test(arguments: FuzzTarget.allCases) func everyKeptInput(_ target: FuzzTarget) throws {
    let folder = Self.corpus.appendingPathComponent(target.rawValue)
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    #expect(!names.isEmpty, "no corpus of \(target.rawValue)")
    for name in names {
      let bytes = [UInt8](try Data(contentsOf: folder.appendingPathComponent(name)))
      #expect(throws: Never.self, "\(target.rawValue)/\(name)") { try target.run(bytes) }
    }
  }

  /// Each seed with a byte changed, and some cut short: other ones in each run, and without a fuzzer.
  @Test(arguments: FuzzTarget.allCases) func damagedInputs(_ target: FuzzTarget) throws {
    let folder = Self.corpus.appendingPathComponent(target.rawValue)
    let isSlow = [.storedRows, .storedBytes, .peerLines, .answer].contains(target)
    let budget = isSlow ? 10 : 300
    var random = SystemRandomNumberGenerator()
    for name in try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() {
      let bytes = [UInt8](try Data(contentsOf: folder.appendingPathComponent(name)))
      guard !bytes.isEmpty, bytes.count <= target.longestInput else { continue }
      for _ in 0..<budget {
        var damaged = bytes
        damaged[Int.random(in: damaged.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
        if Bool.random() { damaged.removeLast(Int.random(in: 0..<damaged.count, using: &random)) }
        #expect(throws: Never.self, "\(target.rawValue): \(Data(damaged).base64EncodedString())") {
          try target.run(damaged)
        }
      }
    }
  }
}
