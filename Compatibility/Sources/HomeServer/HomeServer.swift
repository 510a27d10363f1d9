// A client of a server at home, whose certificate no authority has signed: it trusts the one that came with the app.
//
//   HomeServer CERTIFICATE.der URL…
//
// Its author expects: what the pinned certificate's server sends is there, from a data task and from a background
// download; another server's certificate ends the task with URLError.cancelled before the server sees a request.

import BackgroundURLSession
import Foundation

final class PinningDelegate: NSObject, URLSessionDownloadDelegate {
  private let pinned: Data
  private let outcome = AsyncStream<String>.makeStream()
  var outcomes: AsyncStream<String> { outcome.stream }

  init(certificate: Data) { pinned = certificate }

  func urlSession(
    _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
    completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
  ) {
    guard challenge.protectionSpace.authenticationMethod == NSURLAuthenticationMethodServerTrust,
      let trust = challenge.protectionSpace.serverTrust
    else { return completionHandler(.performDefaultHandling, nil) }
    guard let chain = SecTrustCopyCertificateChain(trust) as? [SecCertificate], let leaf = chain.first,
      SecCertificateCopyData(leaf) as Data == pinned
    else { return completionHandler(.cancelAuthenticationChallenge, nil) }
    completionHandler(.useCredential, URLCredential(trust: trust))
  }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    let bytes = (try? Data(contentsOf: location))?.count ?? -1
    outcome.continuation.yield("\(name(downloadTask)): downloaded \(bytes) bytes")
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    if let error = error as? URLError { outcome.continuation.yield("\(name(task)): error \(error.code.rawValue)") }
  }

  private func name(_ task: URLSessionTask) -> String { task.originalRequest?.url?.lastPathComponent ?? "" }
}

@main
struct HomeServer {
  static func main() async throws {
    let certificate = try Data(contentsOf: URL(fileURLWithPath: CommandLine.arguments[1]))
    let urls = CommandLine.arguments.dropFirst(2).compactMap { URL(string: $0) }
    let delegate = PinningDelegate(certificate: certificate)
    let session = URLSession(configuration: .ephemeral, delegate: delegate, delegateQueue: nil)
    for url in urls {
      do {
        let (data, _) = try await session.data(from: url)
        print("\(url.lastPathComponent): \(data.count) bytes")
      } catch let error as URLError {
        print("\(url.lastPathComponent): error \(error.code.rawValue)")
      }
    }
    let configuration = URLSessionConfiguration.background(withIdentifier: "com.example.homeserver")
    let background = URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
    for url in urls { background.downloadTask(with: url).resume() }
    var lines: [String] = []
    for await line in delegate.outcomes {
      lines.append(line)
      if lines.count == urls.count { break }
    }
    print(lines.sorted().joined(separator: "\n"))
  }
}
