#if !canImport(Darwin)
  internal import Dispatch
  internal import Foundation
  internal import Glibc

  /// SIGTERM and SIGINT as the end of an app that may still say its last words.
  @MainActor final class Termination {
    private var sources: [any DispatchSourceSignal] = []

    /// From now on; `lastWords` runs once on the main actor before the process ends.
    init(_ lastWords: @escaping @MainActor () -> Void) {
      for number in [SIGTERM, SIGINT] {
        // Dispatch catches the signal itself on Linux; ignoring it first would be inherited by programs that this
        // starts.
        let source = DispatchSource.makeSignalSource(signal: number, queue: .main)
        source.setEventHandler {
          MainActor.assumeIsolated {
            lastWords()
            Self.end(by: number)
          }
        }
        source.activate()
        sources.append(source)
      }
    }

    /// Asked by SIGTERM it has ended well. By SIGINT it ends as every program does, so that a shell's script stops too.
    private static func end(by number: Int32) -> Never {
      guard number == SIGINT else { exit(0) }
      _ = fflush(nil)
      _ = signal(number, SIG_DFL)
      _ = raise(number)
      exit(128 + number)
    }
  }
#endif
