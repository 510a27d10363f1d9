import Glibc
import LoopbackServer
import Synchronization

/// The program: starts a server, says where, and waits to be told to end.
enum Program {
  /// Runs until a signal; gives the exit status: 0, 1 for a failure, 64 for a wrong command line (sysexits.h).
  static func run(_ arguments: [String]) -> Int32 {
    let options: Options
    do throws(Options.UsageError) {
      options = try Options(arguments)
    } catch {
      complain("\(error.message); loopback-server --help shows what there is")
      return 64
    }
    if options.asksForHelp {
      return writeAll(Options.help + "\n", to: STDOUT_FILENO) ? 0 : 1
    }
    // Whoever reads our output may leave; the server stays.
    _ = signal(SIGPIPE, SIG_IGN)
    // Blocked before any thread exists, so that every thread inherits it and only sigwait gets them.
    var endings = sigset_t()
    unsafe sigemptyset(&endings)
    unsafe sigaddset(&endings, SIGTERM)
    unsafe sigaddset(&endings, SIGINT)
    unsafe pthread_sigmask(SIG_BLOCK, &endings, nil)

    var descriptor = STDOUT_FILENO
    if let path = options.logPath {
      descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
      guard descriptor >= 0 else {
        complain("cannot open the log \(path): \(reason(errno))")
        return 1
      }
    }
    let log = Log(descriptor: descriptor, mayDrop: options.logPath == nil)
    var configuration = LocalServer.Configuration()
    configuration.port = options.port
    configuration.listensOnIPv6 = options.listensOnIPv6
    configuration.recordedRequestLimit = 0
    configuration.onExchange = { log.write($0) }
    let server: LocalServer
    do throws(LocalServer.StartFailure) {
      server = try LocalServer.start(configuration: configuration, head: Routes.plan, handler: Routes.answer)
    } catch {
      complain(error.description)
      return 1
    }
    _ = writeAll(server.baseURL + "\n", to: STDOUT_FILENO)
    var caught: Int32 = 0
    unsafe sigwait(&endings, &caught)
    server.stop()
    return 0
  }

  private static func complain(_ message: String) {
    _ = writeAll("loopback-server: \(message)\n", to: STDERR_FILENO)
  }

  private static func reason(_ code: Int32) -> String {
    unsafe strerror(code).map { unsafe String(cString: $0) } ?? "errno \(code)"
  }

  private static func writeAll(_ text: String, to descriptor: Int32) -> Bool {
    var rest = Array(text.utf8)
    while !rest.isEmpty {
      let count = unsafe Glibc.write(descriptor, rest, rest.count)
      if count < 0 && errno == EINTR { continue }
      if count <= 0 { return false }
      rest.removeFirst(count)
    }
    return true
  }
}

/// The log: one line an exchange, written in one call, so that lines never mix.
final class Log: Sendable {
  private let descriptor: Int32
  /// Whether a line that cannot be written at once is left out: a pipe nobody reads must not stop the server.
  private let mayDrop: Bool
  private let turn = Mutex(())

  init(descriptor: Int32, mayDrop: Bool) {
    self.descriptor = descriptor
    self.mayDrop = mayDrop
  }

  func write(_ exchange: Exchange) {
    let head = exchange.request
    let status = exchange.statusCode.map(String.init) ?? "-"
    let range = head?.headers["Range"].map(Self.withoutBlanks) ?? "-"
    // What fits PIPE_BUF is written whole or not at all (pipe(7)).
    let target = (head?.target ?? "-").utf8.prefix(2048)
    let line =
      "\(head?.method.prefix(64) ?? "-") \(String(decoding: target, as: UTF8.self)) \(status) "
      + "range=\(String(range.prefix(256))) sent=\(exchange.bodyBytesSent) end=\(exchange.end.rawValue)\n"
    let bytes = Array(line.utf8)
    turn.withLock { _ in
      if mayDrop {
        var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        guard unsafe poll(&entry, 1, 0) == 1, entry.revents & Int16(POLLOUT) != 0 else { return }
      }
      _ = unsafe Glibc.write(descriptor, bytes, bytes.count)
    }
  }

  private static func withoutBlanks(_ text: String) -> String {
    text.split(separator: " ", omittingEmptySubsequences: false).joined(separator: "%20")
  }
}
