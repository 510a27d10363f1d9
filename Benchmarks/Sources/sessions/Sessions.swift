import BackgroundURLSession
import Foundation
import FoundationNetworking

/// `sessions ferry|foundation data|download LIST`: fetches each URL of the file LIST with an ordinary session, all at
/// once, into memory or into temporary files that it removes, and ends; with status 1 where one did not come.
@main
struct Program {
  static func main() {
    let arguments = CommandLine.arguments
    guard arguments.count == 4, let list = try? String(contentsOfFile: arguments[3], encoding: .utf8),
      let start = Fetch.starter(arguments[1], arguments[2])
    else { fatalError("usage: sessions ferry|foundation data|download LIST") }
    let urls = list.split(separator: "\n").compactMap { URL(string: String($0)) }
    let fetch = Fetch(urls.count)
    for url in urls { start(fetch, url) }
    fetch.done.wait()
    exit(fetch.failures == 0 ? 0 : 1)
  }
}

/// SAFETY: the counts are touched in completion handlers alone, which one session calls one after another.
final class Fetch: @unchecked Sendable {
  typealias Starter = (Fetch, URL) -> Void

  let done = DispatchSemaphore(value: 0)
  private(set) var failures = 0
  private var left: Int

  init(_ count: Int) { left = count }

  /// The same calls on either session.
  static func starter(_ library: String, _ kind: String) -> Starter? {
    let ferry = BackgroundURLSession.URLSession(configuration: .ephemeral)
    let foundation = FoundationNetworking.URLSession(configuration: .ephemeral)
    switch (library, kind) {
    case ("ferry", "data"): return { fetch, url in ferry.dataTask(with: url, completionHandler: fetch.took).resume() }
    case ("ferry", "download"):
      return { fetch, url in ferry.downloadTask(with: url, completionHandler: fetch.placed).resume() }
    case ("foundation", "data"):
      return { fetch, url in foundation.dataTask(with: url, completionHandler: fetch.took).resume() }
    case ("foundation", "download"):
      return { fetch, url in foundation.downloadTask(with: url, completionHandler: fetch.placed).resume() }
    default: return nil
    }
  }

  @Sendable private func took(_ data: Data?, _ response: URLResponse?, _ error: (any Error)?) {
    end(data != nil && (response as? HTTPURLResponse)?.statusCode == 200)
  }

  @Sendable private func placed(_ file: URL?, _ response: URLResponse?, _ error: (any Error)?) {
    if let file { try? FileManager.default.removeItem(at: file) }
    end(file != nil && (response as? HTTPURLResponse)?.statusCode == 200)
  }

  private func end(_ isWhole: Bool) {
    if !isWhole { failures += 1 }
    left -= 1
    if left == 0 { done.signal() }
  }
}
