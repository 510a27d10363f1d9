#if !canImport(Darwin)
  public import Foundation
  public import Observation

  // Nothing is drawn, so no modifier has an effect and no closure is called.
  extension View {
    /// No effect.
    public func padding(_ edges: Edge.Set = .all, _ length: CGFloat? = nil) -> some View { ModifiedView() }
    /// No effect.
    public func padding(_ length: CGFloat) -> some View { ModifiedView() }
    /// No effect.
    public func font(_ font: Font?) -> some View { ModifiedView() }
    /// No effect.
    public func bold() -> some View { ModifiedView() }
    /// No effect.
    public func foregroundStyle(_ style: some ShapeStyle) -> some View { ModifiedView() }
    /// No effect.
    public func foregroundColor(_ color: Color?) -> some View { ModifiedView() }
    /// No effect.
    public func tint(_ color: Color?) -> some View { ModifiedView() }
    /// No effect.
    public func background(_ style: some ShapeStyle) -> some View { ModifiedView() }
    /// No effect.
    public func opacity(_ opacity: Double) -> some View { ModifiedView() }
    /// No effect.
    public func cornerRadius(_ radius: CGFloat) -> some View { ModifiedView() }
    /// No effect.
    public func frame(width: CGFloat? = nil, height: CGFloat? = nil, alignment: Alignment = .center) -> some View {
      ModifiedView()
    }
    /// No effect.
    public func frame(
      minWidth: CGFloat? = nil, idealWidth: CGFloat? = nil, maxWidth: CGFloat? = nil, minHeight: CGFloat? = nil,
      idealHeight: CGFloat? = nil, maxHeight: CGFloat? = nil, alignment: Alignment = .center
    ) -> some View {
      ModifiedView()
    }
    /// No effect.
    public func lineLimit(_ number: Int?) -> some View { ModifiedView() }
    /// No effect.
    public func disabled(_ isDisabled: Bool) -> some View { ModifiedView() }
    /// No effect.
    public func navigationTitle(_ title: some StringProtocol) -> some View { ModifiedView() }
    /// No effect.
    public func navigationDestination<D: Hashable>(
      for data: D.Type, @ViewBuilder destination: @escaping (D) -> some View
    ) -> some View {
      ModifiedView()
    }
    /// No effect.
    public func toolbar(@ViewBuilder content: () -> some View) -> some View { ModifiedView() }
    /// No effect.
    public func overlay(alignment: Alignment = .center, @ViewBuilder content: () -> some View) -> some View {
      ModifiedView()
    }
    /// No effect: nothing is ever presented.
    public func sheet(
      isPresented: Binding<Bool>, onDismiss: (() -> Void)? = nil, @ViewBuilder content: @escaping () -> some View
    ) -> some View {
      ModifiedView()
    }
    /// No effect: nothing is ever presented.
    public func alert(
      _ title: some StringProtocol, isPresented: Binding<Bool>, @ViewBuilder actions: () -> some View
    ) -> some View {
      ModifiedView()
    }
    /// No effect.
    public func environment<V>(_ keyPath: WritableKeyPath<EnvironmentValues, V>, _ value: V) -> some View {
      ModifiedView()
    }
    /// No effect.
    public func environment<T: AnyObject & Observable>(_ object: T?) -> some View { ModifiedView() }
    /// No effect.
    public func environmentObject(_ object: some ObservableObject) -> some View { ModifiedView() }
    /// Never called: no view appears.
    public func onAppear(perform action: (() -> Void)? = nil) -> some View { ModifiedView() }
    /// Never called: no view appears.
    public func onDisappear(perform action: (() -> Void)? = nil) -> some View { ModifiedView() }
    /// Never called: no view appears. What a program is to do when it starts belongs to its ``App`` or its delegate.
    public func task(
      priority: TaskPriority = .userInitiated, _ action: @escaping @MainActor @Sendable () async -> Void
    ) -> some View {
      ModifiedView()
    }
    /// Never called: no view appears.
    public func refreshable(action: @escaping @MainActor @Sendable () async -> Void) -> some View { ModifiedView() }
    /// Never called. Follow ``ScenePhase`` with `onChange(of:)` on the scene.
    public func onChange<V: Equatable>(
      of value: V, initial: Bool = false, _ action: @escaping (_ oldValue: V, _ newValue: V) -> Void
    ) -> some View {
      ModifiedView()
    }
    /// Never called. Follow ``ScenePhase`` with `onChange(of:)` on the scene.
    public func onChange<V: Equatable>(
      of value: V, initial: Bool = false, _ action: @escaping () -> Void
    ) -> some View {
      ModifiedView()
    }
    /// Never called. Follow ``ScenePhase`` with `onChange(of:)` on the scene.
    public func onChange<V: Equatable>(of value: V, perform action: @escaping (_ newValue: V) -> Void) -> some View {
      ModifiedView()
    }
  }
#endif
