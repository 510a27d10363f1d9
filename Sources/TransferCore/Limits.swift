/// Every bound of the core, each with its reason.
package enum Limits {
  /// Transfers at once over all hosts: each costs two descriptors and up to 64 KiB in flight.
  package static let running = 64
  /// Tasks whose details stay in memory although they wait, at most twice as many for a while: enough that a burst of
  /// small files never waits for the store. Each is about 1 KiB; at rest they all go.
  package static let residentDetails = 8192
  /// A body shorter than this is not recorded before it is whole; of a longer one the engine takes so much before its
  /// row says how it can be continued. One number for both: a body between two would wait for ever. With what the
  /// kernel holds it is what a killed daemon fetches again; a commit is done before a fast network has brought it.
  package static let unrecordedBytes: Int64 = 128 << 10
  /// Details asked for at once before their tasks' turn: a store that needs 10 ms to answer still feeds 10,000 a
  /// second.
  package static let prefetchedDetails = 128
  /// Redirects that one attempt follows (design 10).
  package static let redirects = 10
  /// How often a task asks its app without a byte of progress between: two servers that send it back and forth, each
  /// with a challenge of its own, would ask for ever.
  package static let questionsInRow: UInt8 = 100
  /// Places that a task's app has shown a certificate of its own; the oldest goes. As many as an attempt may go
  /// through.
  package static let knownPlaces = redirects + 1
  /// Certificates that a task's app has accepted of one place; the oldest goes. Servers that share a name show a few.
  package static let certificatesOfPlace = 8
  /// The same of all places.
  package static let knownCertificates = 2 * knownPlaces
  /// A result that nobody collects is kept so long.
  package static let retention = Duration.seconds(7 * 86_400)
  /// In the last of so many parts of its retention a result says that it goes: the last day of seven.
  package static let retentionParts = 7
  /// A kept part waits so long for a task that goes on from it: as long as the result that told of it.
  package static let keptPartRetention = Duration.seconds(7 * 86_400)
  /// Kept parts of all apps; beyond it the oldest goes. Each can be gigabytes that no list of tasks shows.
  package static let keptParts = 256
  /// An empty session that nobody attaches to is forgotten after so long, and with it only how far its tasks were
  /// counted: longer than any result of it could wait.
  package static let sessionRetention = Duration.seconds(30 * 86_400)
  /// Transactions of which a task keeps what was measured: the first and the last ones. Of a task that was tried for
  /// days the middle tells nothing new.
  package static let transactions = 16
  /// How long a daemon that is to be replaced waits for transfers that would lose by being stopped. (Twice what a
  /// stalled connection needs to be recognised by a person; a transfer that takes longer begins again.)
  package static let drain = Duration.seconds(30)
  /// How long a data task waits for its client to come back.
  package static let dataTaskGrace = Duration.seconds(30)
  /// Unfinished tasks of one daemon: a million is the design's goal; beyond it enqueueing is refused.
  package static let tasks = 2_000_000
  /// Timers that fire, and tasks that wake, in one tick: a million may come due at once (a date that they share, a
  /// machine that was off for a week), and clients are not to wait for the last of them.
  package static let dueInTick = 1024
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
  /// A discretionary task waits for good conditions until so long before its deadline, or until half of its time is
  /// over: a day has a night in it, in which devices stand on their chargers.
  package static let urgency = Duration.seconds(86_400)
  /// The network has returned: lanes begin within this time, each at a moment of its own.
  package static let spreadOfReturn = Duration.milliseconds(500)
}
