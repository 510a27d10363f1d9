import CurlEngine

/// A body that the program hands over piece by piece, from any thread; for those who do not know the engine.
package final class LocalFeed: Sendable {
  let feed = BodyFeed()

  package init() {}

  /// False: enough waits; `whenRoom` is called once when more is wanted, on any thread.
  package func offer(_ piece: [UInt8], whenRoom: @escaping @Sendable () -> Void) -> Bool {
    feed.offer(piece, whenRoom: whenRoom)
  }

  /// No piece follows.
  package func finish() { feed.finish() }

  /// The body cannot be read on.
  package func fail() { feed.fail() }
}

extension LocalBody {
  package static func bytes(_ bytes: [UInt8]) -> LocalBody {
    .feed(BodyFeed(whole: bytes), length: Int64(bytes.count), isRepeatable: true)
  }

  package static func stream(_ feed: LocalFeed) -> LocalBody {
    .feed(feed.feed, length: nil, isRepeatable: false)
  }
}

extension TransferHome {
  package func provide(_ feed: LocalFeed?, to transfer: LocalTransfer) {
    provide(feed?.feed, length: nil, to: transfer)
  }
}
