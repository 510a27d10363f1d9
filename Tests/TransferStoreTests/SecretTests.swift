import Foundation
import Testing
import TransferCore

@testable import TransferStore

/// What was secret is in no file of the store once it was forgotten.
@Suite struct SecretTests {
  static let secret = "pw-5f3a91c07e"
  let folder: TemporaryFolder
  init() throws { folder = try TemporaryFolder() }

  /// Large enough for pages of its own, which a plain deletion would only mark as free.
  static var details: TaskDetails {
    var details = Sample.details(key: nil)
    details.plan.request.headers = [("Authorization", "Bearer " + secret + String(repeating: "x", count: 20_000))]
    details.plan.tls = TLSSettings(certificateFile: "/cert.pem", keyPassword: Secret(secret))
    details.progress.access = TaskAccess(
      credential: TransferCredential(user: "ann", password: Secret(secret), origin: "https://example.org:443"))
    return details
  }

  static var forgetting: [StoreChange] {
    var progress = details.progress
    progress.access = nil
    return [
      .updateTask(Sample.entry(1), progress: progress),
      .forgetSecrets(TaskID(rawValue: 1), details.plan.withoutSecrets),
    ]
  }

  func filesWithTheSecret() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { name in
      let bytes = try Data(contentsOf: URL(fileURLWithPath: "\(folder.path)/\(name)"))
      return bytes.range(of: Data(Self.secret.utf8)) != nil
    }.sorted()
  }

  @Test(arguments: [true, false]) func whatIsForgottenIsInNoFile(isRemoved: Bool) throws {
    let store = try TransferStore(path: folder.database)
    try store.apply([.putSession(Sample.session(1)), .addTask(Sample.entry(1), Self.details)])
    #expect(try !filesWithTheSecret().isEmpty)
    let removal: [StoreChange] = [
      .removeTask(TaskID(rawValue: 1)), .forgetSecrets(TaskID(rawValue: 1), Self.details.plan.withoutSecrets),
    ]
    try store.apply(isRemoved ? removal : Self.forgetting)
    #expect(store.owesErasure)
    try store.erase()
    #expect(!store.owesErasure)
    #expect(try filesWithTheSecret() == [])
    let plan = try store.details(TaskID(rawValue: 1))?.plan
    #expect(plan == (isRemoved ? nil : Self.details.plan.withoutSecrets))
  }

  /// The daemon was killed between the commit and the erasure: the next one owes it.
  @Test func theNextStoreErasesWhatTheLastOneOwed() throws {
    let copy = try TemporaryFolder()
    let store = try TransferStore(path: folder.database)
    try store.apply([.putSession(Sample.session(1)), .addTask(Sample.entry(1), Self.details)])
    try store.apply(Self.forgetting)
    for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) where !name.hasSuffix("-shm") {
      try FileManager.default.copyItem(atPath: "\(folder.path)/\(name)", toPath: "\(copy.path)/\(name)")
    }
    store.close()
    let next = try TransferStore(path: copy.database)
    _ = try next.load()
    try next.erase()
    for name in try FileManager.default.contentsOfDirectory(atPath: copy.path) {
      let bytes = try Data(contentsOf: URL(fileURLWithPath: "\(copy.path)/\(name)"))
      #expect(bytes.range(of: Data(Self.secret.utf8)) == nil, "\(name)")
    }
  }
}
