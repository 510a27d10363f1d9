package import CurlEngine
package import DeviceConditions
import LinuxSystem
package import TransferCore

/// The transfers of this process: one thread that owns core and engine. Every method may be called from any thread, is
/// carried out in order, and returns at once.
package final class TransferHome: Sendable {
  enum Message: Sendable {
    case open(LocalSession)
    case close(LocalSession)
    case start(LocalTransfer)
    case resume(LocalTransfer)
    case suspend(LocalTransfer)
    case cancel(LocalTransfer, keepsPart: Bool)
    case prioritize(LocalTransfer, UInt8)
    case takeMore(LocalTransfer)
    case follow(LocalTransfer, TransferRequest)
    case authorize(LocalTransfer, Answer)
    case keepResponse(LocalTransfer)
    case provide(BodyFeed?, length: Int64?, LocalTransfer)
    case release(LocalTransfer)
    // From workers.
    case opened(AttemptID, Swift.Result<LocalFiles, LocalFileFailure>)
    case finalized(TaskID, FinalizeOutcome)
    // From the device's sources.
    case observed(DeviceFacts)
  }

  /// Asks for what is behind these constraints to be watched from now on.
  package typealias Need = @Sendable (Constraints) -> Void
  /// Begins to watch the device, for facts to be reported from any thread; nil: it cannot be watched.
  package typealias Watch = @Sendable (_ report: @escaping @Sendable (DeviceFacts) -> Void) -> Need?

  /// What a home is told of the machine.
  struct Surroundings: Sendable {
    var temporaryFolder: String
    var isOnline: @Sendable () -> Bool
    var watch: Watch
  }

  /// The home of this process; made by its first use, and there until the process ends.
  package static let shared = TransferHome(temporaryFolder: ProcessEnvironment.value(of: "TMPDIR") ?? "/tmp")

  let mailbox: Mailbox<Message>?
  private let worker: Worker?
  /// Why there is no loop: out of descriptors or threads.
  private let failure: TransferFailure?

  /// - Parameters:
  ///   - temporaryFolder: where the files of downloads stand until they are released.
  ///   - threadName: of the loop, for debuggers.
  ///   - isOnline: whether a network is there; asked when a host is not found, on the loop's thread.
  ///   - watch: called on the loop's thread, when the first transfer forbids itself some network.
  package init(
    temporaryFolder: String, threadName: String = "URLSession",
    isOnline: @escaping @Sendable () -> Bool = { NetworkInterface.isAnyUp },
    watch: @escaping Watch = TransferHome.watchDevice
  ) {
    let surroundings = Surroundings(temporaryFolder: temporaryFolder, isOnline: isOnline, watch: watch)
    do throws(SystemError) {
      let mailbox = try Mailbox<Message>()
      let worker = try Worker(name: threadName, limit: 1)
      self.mailbox = mailbox
      self.worker = worker
      failure = nil
      worker.submit { TransferLoop.run(mailbox, surroundings) }
    } catch {
      mailbox = nil
      worker = nil
      failure = TransferLoop.unavailable("\(error)")
    }
  }

  /// Whether servers can be asked about though the authorities vouch for them.
  package static var seesCertificates: Bool { CurlEngine.seesCertificates }

  /// A host as connections know it: in ASCII (IDNA).
  package static func name(of host: String) -> String { CurlURL.name(of: host) }

  /// The real sources, as the environment places them.
  package static let watchDevice: Watch = { report in
    let places = DeviceConditions.Places(environment: ProcessEnvironment.current())
    guard let device = try? DeviceConditions(places, report: report) else { return nil }
    return { device.need($0) }
  }

  private func post(_ message: Message) { mailbox?.post(message) }

  package func open(_ session: LocalSession) { post(.open(session)) }
  /// No transfer of the session follows.
  package func close(_ session: LocalSession) { post(.close(session)) }

  /// Once for each transfer.
  package func start(_ transfer: LocalTransfer) {
    if let failure { return transfer.listener.transferEnded(.failed(failure, nil), MetricsLog()) }
    post(.start(transfer))
  }

  package func resume(_ transfer: LocalTransfer) { post(.resume(transfer)) }
  /// The connection is kept, and nothing is read from it.
  package func suspend(_ transfer: LocalTransfer) { post(.suspend(transfer)) }
  /// - Parameter keepsPart: its end tells of what another transfer can go on from.
  package func cancel(_ transfer: LocalTransfer, keepsPart: Bool = false) {
    post(.cancel(transfer, keepsPart: keepsPart))
  }
  package func prioritize(_ transfer: LocalTransfer, _ priority: UInt8) { post(.prioritize(transfer, priority)) }
  /// The listener wants body bytes again.
  package func takeMore(_ transfer: LocalTransfer) { post(.takeMore(transfer)) }
  package func follow(_ transfer: LocalTransfer, _ request: TransferRequest) { post(.follow(transfer, request)) }
  /// The request is sent once more, with what was asked for.
  package func authorize(_ transfer: LocalTransfer, _ answer: Answer) { post(.authorize(transfer, answer)) }
  /// The response that was asked about is the result; where none came with the question, the transfer fails.
  package func keepResponse(_ transfer: LocalTransfer) { post(.keepResponse(transfer)) }
  /// Nil: there is no body, and the transfer fails.
  package func provide(_ feed: BodyFeed?, length: Int64?, to transfer: LocalTransfer) {
    post(.provide(feed, length: length, transfer))
  }
  /// The file of a download is not needed any more.
  package func release(_ transfer: LocalTransfer) { post(.release(transfer)) }
}
