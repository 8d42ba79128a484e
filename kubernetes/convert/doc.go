// SPDX-License-Identifier: Apache-2.0

// Package convert turns Kubernetes and Calico v3 API objects into resources of package policy.
//
//	Kubernetes v1
//	  Namespace                      -> Profile "kns.NAME": allows all; labels "pcns.*", with
//	                                    "pcns.wayleave.dev/known"
//	  ServiceAccount                 -> Profile "ksa.NAMESPACE.NAME": no rules; labels "pcsa.*"
//	  Pod                            -> WorkloadEndpoint, if the pod is not on the host's network; labels
//	                                    that follow from the names of namespace and account
//	  Node                           -> Node; NetworkSet "knode.NAME" of its addresses, labels
//	                                    "wayleave.dev/node.*"; Block of each pod CIDR, with PodCIDRs
//	  Service                        -> nothing (ErrIgnored)
//	discovery.k8s.io/v1
//	  EndpointSlice                  -> ServiceBackends of the same name; nothing if the slice has no
//	                                    service (ErrIgnored) or has host names (ErrNotSupported)
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
// A Converter turns one object into its resources. It keeps no state and does not use other objects, so
// the same object always gives the same resources. Two objects of one kind never give resources with the
// same key, except pod CIDRs that two nodes claim.
//
//	resources, problems := convert.Converter{}.Convert(pod)
//
// The result may have neither resources nor problems (a pod without an address), resources and problems (a
// NetworkPolicy with one invalid rule), or problems alone. A problem that wraps ErrIgnored is no fault: the
// object has no effect on purpose.
//
// Convert the Namespace objects as well, "default" included. If a pod's Namespace is missing, the pod has a
// profile that does not exist, so only policies can allow its traffic. Selectors then see only those labels
// of the namespace that follow from its name, so a rule that denies the namespace by another label does not
// match. If a pod's ServiceAccount is missing, the pod only lacks the labels of the account. Convert either
// Pods or Calico WorkloadEndpoints, and either Kubernetes or Calico Nodes: they describe the same things.
//
// # Manifests without a cluster
//
// A pod in a manifest has no node and no address before it runs, so it gives no resource. To check such
// manifests, set Converter.AssumeNetwork and give all resources to Assume, which assumes the missing data:
//
//	resources, assumed := convert.Assume(resources)
//
// # Omitted parts
//
// An object with an error usually gives no resource, only problems. In these cases, only a part of the object
// has no effect:
//
//   - A rule of a policy that is not understood is closed (see policy.Rule.Close), and its doubts have the
//     field paths of the object. A closed Allow or Log rule matches nothing. A closed rule with any other
//     action, or an unknown one, denies everything in its direction from its place on. The fields of a policy
//     outside of the rules are its scope: selectors, types, tier, order or priority. If a field of the scope
//     is invalid or unknown, there is no policy.
//   - The rules of a Kubernetes NetworkPolicy can only allow, so an invalid rule matches nothing, and the
//     policy still isolates its pods. Closed rules of a ClusterNetworkPolicy that deny have the annotation
//     AnnotationFailClosed. If all rules of a direction together are over a limit of package policy, one
//     closed rule takes their place. It denies everything, unless all of the replaced rules allow.
//   - If a Pod, a Node, a network set or an endpoint were absent, rules that deny it would not match. So only
//     these parts are left out: reserved labels, and labels beyond 1,000; invalid addresses, named ports and
//     annotations of a Pod or Node; invalid pod CIDRs of a Node.
//   - A port of an EndpointSlice without a number, which would mean every port, is left out.
//   - Fields of Calico objects with the type calico.Ignored have no effect on policy or routes, for example
//     how the addresses of a pool are assigned.
//
// A namespaced object without a namespace is in "default", as with kubectl.
//
// # Tiers of Kubernetes
//
// The tier kube-admin comes before the tier default, and kube-baseline after it. kube-admin and kube-baseline have the
// default action Pass. So if no Admin rule decides, NetworkPolicies decide about the pods and directions that they
// select, because the default action of the tier default is Deny. About all others, Baseline rules decide, and then the
// profile of the namespace, which allows.
//
// # Nodes
//
// The peer "nodes" of a ClusterNetworkPolicy is a selector over network sets, which this package makes of
// Nodes. The peer also matches host-networked pods, because they have the addresses of their node.
// Host-networked pods are not endpoints, so selectors of pods never match them, neither in the subject of a
// policy nor in a peer.
//
// Selectors of Calico policies must not match these network sets by accident. So a selector that could match
// a set without labels, such as all() or a != "b", is limited with
// !has(wayleave.dev/node.projectcalico.org/name), unless the selector itself names a label that begins with
// NodeLabelPrefix. Selectors of policies that this package did not convert are not limited: all() in them
// also matches the converted nodes.
//
// # Deviations
//
// From Kubernetes:
//
//   - A namespaceSelector may match because a label is absent (NotIn, DoesNotExist). Unless the label is the name of
//     the namespace, the peer then matches only pods whose Namespace object has been converted, or a Calico Profile
//     "kns.NAME" in place of it. In a ClusterNetworkPolicy, this holds for the peers and the subject of Accept and Pass
//     rules; a Deny rule also matches pods whose Namespace object has not been converted.
//   - Reserved labels are those that this package sets itself (projectcalico.org/namespace, .../orchestrator,
//     .../serviceaccount, pcns.*, pcsa.*, wayleave.dev/node.*). On pods, network sets and endpoints they are left out
//     and reported. So no pod can pretend to be in another namespace, or to be a node. For a podSelector, no pod has a
//     reserved label: In, Exists and matchLabels never match, NotIn and DoesNotExist always do, which is reported with
//     ErrIgnored. Selectors of Calico policies may use reserved labels.
//   - An ipBlock, exception or network that is an IPv4 prefix in IPv6 form (::ffff:0.0.0.0/96) puts
//     its rule in doubt. In Calico objects, it means the IPv4 prefix.
//   - `except` blocks of an ipBlock that are outside its cidr have no effect; the API server
//     refuses them.
//   - ClusterNetworkPolicy: peers by domainNames are not supported; their rules fail closed. More than 25 rules, peers,
//     protocols or networks, and a range of one port, are accepted; the API server refuses them. The API does not
//     define the order of policies with equal priority. Here they are sorted bytewise by "kcnp.NAME//Policy", like all
//     policies of equal order.
//   - EndpointSlice: an endpoint is used while it is serving, even if it is not ready.
//   - Hostnames among the addresses of a Node are ignored, even those that look like addresses.
//   - Host ports of pods have no effect, and neither have annotations other than those of this package. So Calico's
//     annotations for floating addresses and allowed sources are ignored.
//
// From Calico:
//
//   - A rule with any error is closed, also one with application layer matches (http).
//   - Package manifest refuses null in the spec. Typed objects cannot distinguish it from an absent field.
//   - expectedIPs of a HostEndpoint are addresses without a length, as in Calico.
//   - Names of policies must not begin with "knp.default." or "kcnp.", and names of global network sets must not begin
//     with "knode.".
//   - A staged object with the stagedAction Set or Learn, or without one, gives a staged policy. With Delete or Ignore,
//     it gives nothing (ErrIgnored). To see the effect of a deletion, use verdict.Diff.
//   - IPPool: the fields ipip and nat-outgoing of an older API are refused.
//   - Node: wireguardPublicKeyV6, BGP and the pod CIDRs of its status are ignored: one WireGuard key is for
//     both families.
//   - WorkloadEndpoint: a port without a name is left out, quality of service is ignored.
//
// # Back to the objects
//
// Faults and explanations name resources by key: Origin returns the API object from which the resource with
// a key was made. Counters and logs have rule IDs: Converter.RuleOrigins returns the rules of a policy
// object, with their peers and ports, by rule ID.
//
// # Concurrency
//
// A Converter is safe for concurrent use. It does not change the objects that it reads. The returned resources
// share no memory with these except strings.
//
// # Errors
//
// Every problem is an *Error with the object and the path of the field.
package convert
