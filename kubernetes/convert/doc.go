// SPDX-License-Identifier: Apache-2.0

// Package convert turns Kubernetes and Calico v3 API objects into the resources that
// Wayleave works from.
//
//	Kubernetes v1
//	  Namespace                      -> Profile "kns.NAME": allows all; labels "pcns.*", with
//	                                    "pcns.wayleave.dev/known"
//	  ServiceAccount                 -> Profile "ksa.NAMESPACE.NAME": no rules; labels "pcsa.*"
//	  Pod                            -> WorkloadEndpoint, if the pod has a network of its own; labels
//	                                    that follow from the names of namespace and account
//	  Node                           -> Node; NetworkSet "knode.NAME" of its addresses, labels
//	                                    "wayleave.dev/node.*"; Block of each pod CIDR, if asked for
//	  Service                        -> nothing (ErrIgnored)
//	discovery.k8s.io/v1
//	  EndpointSlice                  -> ServiceBackends of the same name; nothing for one that no
//	                                    service has (ErrIgnored) or of names (ErrNotSupported)
//	networking.k8s.io/v1
//	  NetworkPolicy                  -> Policy "knp.default.NAME" in the default tier, order 1000
//	policy.networking.k8s.io/v1alpha2
//	  ClusterNetworkPolicy           -> Policy "kcnp.NAME" in tier kube-admin or kube-baseline,
//	                                    order = priority
//	projectcalico.org/v3
//	  GlobalNetworkPolicy,
//	  NetworkPolicy                  -> Policy of the same name
//	  StagedGlobalNetworkPolicy,
//	  StagedNetworkPolicy            -> Policy of the same name, staged
//	  StagedKubernetesNetworkPolicy  -> Policy "knp.default.NAME", staged
//	  Tier, Profile, HostEndpoint,
//	  WorkloadEndpoint, IPPool       -> the resource of the same kind and name
//	  GlobalNetworkSet, NetworkSet   -> NetworkSet, with labels that follow from the namespace's name
//	  Node                           -> Node; NetworkSet "knode.NAME" of its addresses
//
// # Usage
//
// A Converter turns one object into the resources that are made of it. It knows nothing of other
// objects and keeps no state: the same object always gives the same resources, and no two objects
// of one kind give a resource of the same key (but for pod CIDRs that two nodes both claim).
//
//	resources, problems := convert.Converter{}.Convert(pod)
//
// There may be no resources without a problem (a pod that has no address yet), resources without
// or with problems (a NetworkPolicy with one bad rule), or problems alone. Problems that wrap
// ErrIgnored are remarks: what they tell of is in order, and has no effect on purpose.
//
// Give the Namespace objects along, "default" included: a pod whose Namespace is missing lists a
// profile that does not exist, and so may do only what policies allow. To selectors such a
// namespace has no labels but those of its name, by which it is found: a rule that denies it by
// another label misses it. A missing ServiceAccount takes nothing away but its labels. Give either
// Pods or Calico WorkloadEndpoints, and either Kubernetes or Calico Nodes: they say the same twice.
//
// # What is left out
//
// An object that cannot be understood whole gives no resource, only problems. Some things are
// smaller than an object:
//
//   - A rule of a policy that is not understood is closed alone (see policy.Rule.Close), and its
//     doubts have the field paths of the object. One that allows or logs matches nothing. Any
//     other, also one whose action is not known, denies everything in its direction from its place
//     on. Where the scope of the policy is not understood there is no policy: the selectors, types,
//     tier, order or priority, or a field outside of the rules that is unknown.
//   - The rules of a Kubernetes NetworkPolicy can only allow, so a bad one matches nothing, and the
//     policy goes on isolating. Those of a ClusterNetworkPolicy that deny for such a reason have
//     the annotation AnnotationFailClosed. Where all rules of a direction together are over a limit
//     of package policy, one closed rule stands for them. It denies unless all of them allow.
//   - Of Pods, Nodes, network sets and endpoints, which rules that deny would miss if they were
//     absent, less goes: reserved labels, and those beyond 1,000; of a Pod or Node, addresses,
//     named ports and annotations that are none; of a Node, pod CIDRs.
//   - A port of an EndpointSlice without a number (which would be every port) is left out.
//   - Fields of Calico objects of type calico.Ignored have nothing to do with policy or routes
//     here, such as how a pool's addresses are given out.
//
// A namespaced object without a namespace is in "default", as with kubectl.
//
// # Tiers of Kubernetes
//
// The tier kube-admin comes before default, kube-baseline after it, and both end in Pass. So
// what no Admin rule decides goes on to NetworkPolicy, which decides finally for the pods and
// directions that it selects, as the tier default ends in Deny; all else goes on to
// Baseline, and in the end to the profile of the namespace, which allows.
//
// # Nodes
//
// The peer "nodes" of a ClusterNetworkPolicy is a selector over network sets that are made of Nodes
// and follow them. Host-networked pods are reached by it, since they have the addresses of their
// node; as pods they are no endpoints, and neither subject nor peer of anything.
//
// To Calico's policies there are no such sets. A selector of theirs that could match one for want
// of labels, such as all() or a != "b", is therefore limited with
// !has(wayleave.dev/node.projectcalico.org/name), unless it asks for a label that begins with
// NodeLabelPrefix. Policies that do not come through this package are not: to them all() includes
// nodes that were converted.
//
// # Deviations
//
// From Kubernetes:
//
//   - A peer with a namespaceSelector that could match for want of a label (NotIn, DoesNotExist),
//     other than the namespace's name, matches only pods whose Namespace object is known, or a
//     Calico Profile "kns.NAME" in its stead. In a ClusterNetworkPolicy that holds for Accept and
//     Pass rules, of the subject as of the peers; a Deny rule takes such pods in.
//   - Labels that this package sets itself (projectcalico.org/namespace, .../orchestrator,
//     .../serviceaccount, pcns.*, pcsa.*, wayleave.dev/node.*) are left out and reported on pods,
//     network sets and endpoints, so that nobody can pose as a member of another namespace or as a
//     node. To a podSelector no pod has one: In, Exists and matchLabels are never true, NotIn and
//     DoesNotExist always, which is a remark (ErrIgnored). Calico policies may ask for them.
//   - An ipBlock, exception or network that is an IPv4 prefix in IPv6 form (::ffff:0.0.0.0/96) puts
//     its rule in doubt. Those of Calico objects count as the IPv4 prefix.
//   - `except` blocks of an ipBlock that are outside its cidr have no effect; the API server
//     refuses them.
//   - ClusterNetworkPolicy: peers by domainNames are not supported (they fail closed). More than 25
//     rules, peers, protocols or networks, and a range of one port, are taken; the API server
//     refuses them. Policies of equal priority, which the API leaves open, are taken in order of
//     their names; more exactly, as policies of equal order are, of "kcnp.NAME//Policy" bytewise.
//   - EndpointSlice: an endpoint counts while it serves, also when it is no longer ready.
//   - Hostnames among the addresses of a Node are ignored, even those that look like addresses.
//   - Pods' host ports, and annotations other than this package's own, are not read. Those of
//     Calico that ask for floating addresses or allowed sources are among them.
//
// From Calico:
//
//   - A rule with anything wrong in it, application layer matches (http) included, is closed.
//   - null is refused in the spec by package manifest; the typed objects cannot tell.
//   - expectedIPs of a HostEndpoint are addresses without a length, as in Calico.
//   - Policies must not have names that begin with "knp.default." or "kcnp.", global network sets
//     none that begin with "knode.".
//   - stagedAction Set, Learn and none make a staged policy. Delete and Ignore make nothing
//     (ErrIgnored): what the going of a policy changes is a question for verdict.Diff.
//   - IPPool: the fields ipip and nat-outgoing of an older API are refused.
//   - Node: WireGuard, BGP and IP in IP addresses are ignored, and so are pod CIDRs of its status.
//   - WorkloadEndpoint: a port without a name is left out, quality of service is ignored.
//
// # Concurrency
//
// A Converter may be used by several goroutines. It does not change the objects that it
// reads, and shares no memory with the resources that it returns except strings.
//
// # Errors
//
// Every problem is an *Error with the object and the path of the field.
package convert
