/// Every bound of the core, each with its reason.
package enum Limits {
  /// Transfers at once over all hosts: each costs two descriptors and up to 64 KiB in flight.
  package static let running = 64
  /// Tasks whose details stay in memory although they wait: enough that a burst of small files never waits for the
  /// store.
  package static let residentDetails = 2048
  /// A body shorter than this is not recorded before it is whole; of a longer one the engine takes so much before its
  /// row says how it can be continued. One number for both: a body between two would wait for ever. With what the
  /// kernel holds it is what a killed daemon fetches again; a commit is done before a fast network has brought it.
  package static let unrecordedBytes: Int64 = 128 << 10
  /// Details asked for at once before their tasks' turn: a store that needs 10 ms to answer still feeds 10,000 a
  /// second.
  package static let prefetchedDetails = 128
  /// Redirects that one attempt follows (design 10).
  package static let redirects = 10
  /// A result that nobody collects is kept so long.
  package static let retention = Duration.seconds(7 * 86_400)
  /// How long a data task waits for its client to come back.
  package static let dataTaskGrace = Duration.seconds(30)
  /// Unfinished tasks of one daemon: a million is the design's goal; beyond it enqueueing is refused.
  package static let tasks = 2_000_000
  /// How soon a program that waits for a network is tried again; nothing tells us when one returns.
  package static let connectivityCheckInterval = Duration.seconds(5)
  /// How soon space is looked for again after a disk was full.
  package static let spaceCheckInterval = Duration.seconds(5)
  /// Restarts from 0 in a row that go at once; later ones wait like failures do.
  package static let immediateRestarts: Int64 = 1
  /// Restarts from 0 in a row after which the task ends: a server that cuts every whole answer and refuses every range
  /// would be asked for ever, each time for the same bytes.
  package static let restarts: Int64 = 4
  /// Digest mismatches that are answered by fetching once more.
  package static let digestRetries: Int64 = 1
  /// Deliveries offered to one client and not yet acknowledged.
  package static let offeredDeliveries = 256
  /// No failure makes a task wait longer: the longest Retry-After that is honoured (design 10).
  package static let longestBackoff = Duration.seconds(86_400)
  /// Registered apps: each is a row, and is looked at whenever something may be launched.
  package static let apps = 1000
  /// Launches of an app that are remembered: enough for a person to see why it is not launched any more.
  package static let launchHistory = 20
  package static let resourceTimeout = Duration.seconds(10 * 365 * 86_400)
}
