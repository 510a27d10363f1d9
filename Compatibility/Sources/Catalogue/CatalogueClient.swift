// What an app's networking layer looks like when it is written to be tested: the session comes from outside.

import BackgroundURLSession
import Foundation

package struct Book: Codable, Equatable, Sendable {
  package var title: String
  package var year: Int

  package init(title: String, year: Int) {
    self.title = title
    self.year = year
  }
}

package struct CatalogueClient: Sendable {
  package enum Failure: Error, Equatable {
    case status(Int)
  }

  private let session: URLSession
  private let address: URL

  package init(session: URLSession = .shared, address: URL) {
    self.session = session
    self.address = address
  }

  package func books() async throws -> [Book] {
    let (data, response) = try await session.data(from: address.appendingPathComponent("books"))
    if let response = response as? HTTPURLResponse, response.statusCode != 200 {
      throw Failure.status(response.statusCode)
    }
    return try JSONDecoder().decode([Book].self, from: data)
  }

  package func add(_ book: Book) async throws {
    var request = URLRequest(url: address.appendingPathComponent("books"))
    request.httpMethod = "POST"
    request.setValue("application/json", forHTTPHeaderField: "Content-Type")
    let (_, response) = try await session.upload(for: request, from: JSONEncoder().encode(book))
    if let response = response as? HTTPURLResponse, response.statusCode != 201 {
      throw Failure.status(response.statusCode)
    }
  }

  package func cover(of book: Book, completion: @escaping @Sendable (Result<Data, any Error>) -> Void) {
    let task = session.dataTask(with: address.appendingPathComponent("covers/\(book.title)")) { data, _, error in
      completion(data.map { .success($0) } ?? .failure(error ?? URLError(.unknown)))
    }
    task.resume()
  }
}
