#if !canImport(Darwin)
  /// A part of an interface. It compiles here and is never made: there is no screen.
  @MainActor @preconcurrency public protocol View {
    /// The type of what it consists of.
    associatedtype Body: View
    /// What it consists of. Never evaluated.
    @ViewBuilder var body: Body { get }
  }

  /// A view of this module: it consists of nothing.
  protocol UndrawnView: View where Body == Never {}

  extension UndrawnView {
    /// Never asked for.
    public var body: Never { fatalError("\(Self.self) has no body: nothing is drawn on a machine without a screen.") }
  }

  /// No view.
  public struct EmptyView: View, UndrawnView {
    /// No view.
    public nonisolated init() {}
  }

  /// What a modifier makes of a view.
  public struct ModifiedView: View, UndrawnView {
    nonisolated init() {}
  }

  /// A view whose type is forgotten.
  public struct AnyView: View, UndrawnView {
    /// Forgets the type of `view`.
    public init(_ view: some View) {}
  }

  /// Views in a row.
  public struct TupleView<each Content: View>: View, UndrawnView {}

  /// One of two views.
  public struct ConditionalView<TrueContent: View, FalseContent: View>: View, UndrawnView {}

  /// Makes one view of the views in a closure.
  @resultBuilder public enum ViewBuilder {
    /// A view as it is.
    public static func buildExpression<Content: View>(_ content: Content) -> Content { content }
    /// No view.
    public static func buildBlock() -> EmptyView { EmptyView() }
    /// One view.
    public static func buildBlock<Content: View>(_ content: Content) -> Content { content }
    /// Several views.
    @MainActor public static func buildBlock<each Content: View>(
      _ content: repeat each Content
    ) -> TupleView<repeat each Content> {
      TupleView()
    }
    /// A view under a condition.
    public static func buildIf<Content: View>(_ content: Content?) -> Content? { content }
    /// The first of two views.
    @MainActor public static func buildEither<TrueContent: View, FalseContent: View>(
      first: TrueContent
    ) -> ConditionalView<TrueContent, FalseContent> {
      ConditionalView()
    }
    /// The second of two views.
    @MainActor public static func buildEither<TrueContent: View, FalseContent: View>(
      second: FalseContent
    ) -> ConditionalView<TrueContent, FalseContent> {
      ConditionalView()
    }
    /// A view under an availability condition.
    @MainActor public static func buildLimitedAvailability(_ content: some View) -> AnyView { AnyView(content) }
  }

  extension Optional: View, UndrawnView where Wrapped: View {
    /// Nothing.
    public typealias Body = Never
  }
#endif
