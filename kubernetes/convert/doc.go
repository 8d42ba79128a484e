// SPDX-License-Identifier: Apache-2.0

// Package convert turns Kubernetes and Calico v3 API objects into resources of package policy.
//
//	Kubernetes v1
//	  Namespace                      -> Profile "kns.NAME": allows all; labels "pcns.*", with
//	                                    "pcns.wayleave.dev/known"
//	  ServiceAccount                 -> Profile "ksa.NAMESPACE.NAME": no rules; labels "pcsa.*"
//	  Pod                            -> WorkloadEndpoint, if the pod is not on the host's network; has labels
//	                                    with the names of its namespace and service account
//	  Node                           -> Node; NetworkSet "knode.NAME" of its addresses, labels
//	                                    "wayleave.dev/node.*"; if Converter.PodCIDRs is set, a Block
//	                                    of each pod CIDR
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
//	  GlobalNetworkSet, NetworkSet   -> NetworkSet; one with a namespace has labels with the namespace's name
//	  Node                           -> Node; NetworkSet "knode.NAME" of its addresses
//
// # Usage
//
// A Converter turns one object into its resources. It keeps no state and does not use other
// objects, so the same object always gives the same resources. Two objects of one kind never give
// resources with the same key, except pod CIDRs that two nodes claim.
//
//	resources, problems := convert.Converter{}.Convert(pod)
//
// The result may have neither resources nor problems (a pod without an address), resources and
// problems (a NetworkPolicy with one invalid rule), or problems alone. A problem that wraps
// ErrIgnored is no fault: the object is meant to have no effect.
//
// Convert the Namespace objects as well, "default" included. If a pod's Namespace is missing, the
// pod has a profile that does not exist, so only policies can allow its traffic. From its
// namespace, the pod then has only the labels with the namespace's name. So a rule that denies the
// namespace by another label does not match the pod. If a pod's ServiceAccount is missing, the pod
// only lacks the labels of the account.
//
// Convert either Pods or Calico WorkloadEndpoints, not both, because they describe the same
// endpoints. For the same reason, convert either Kubernetes or Calico Nodes.
//
// # Manifests without a cluster
//
// A pod in a manifest has no node and no address before it runs, so it gives no resource. To check
// such manifests, set Converter.AssumeNetwork and give all resources to Assume, which assumes the
// missing data:
//
//	resources, assumed := convert.Assume(resources)
//
// # Omitted parts
//
// An object with an error usually gives no resource, only problems. In these cases, only a part of
// the object has no effect:
//
//   - A policy with a rule that is not understood: the rule is closed (see policy.Rule.Close). The
//     rule's Doubts have the reasons, each with the path of the field in the object. A closed Allow
//     or Log rule matches nothing. Any other closed rule denies every packet of its direction that
//     reaches it, also if its action is unknown. But if a field of the policy outside of its rules
//     is invalid or unknown, there is no policy. Examples of such fields are a selector, the types,
//     the tier, the order and the priority.
//   - A Kubernetes NetworkPolicy: its rules can only allow, so an invalid rule matches nothing, and
//     the policy still isolates its pods.
//   - A ClusterNetworkPolicy: a closed rule that denies has the annotation AnnotationFailClosed,
//     with the reason.
//   - A NetworkPolicy or ClusterNetworkPolicy in which all rules of a direction together are over a
//     limit of package policy: one closed rule takes their place. If all of the replaced rules
//     allow, it matches nothing. Otherwise it denies everything.
//   - A Pod, a Node, a network set or an endpoint: if the whole object were absent, rules that deny
//     it would not match. So only the faulty part is left out. Faulty parts are reserved labels,
//     and labels beyond 1,000. In a Pod or Node, they are also invalid addresses, named ports and
//     annotations. In a Node, they are also invalid pod CIDRs.
//   - An EndpointSlice: a port without a number would mean every port, so it is left out.
//   - A Calico object: fields of the type calico.Ignored have no effect on policy or routes.
//     Examples are the fields that decide how the addresses of a pool are assigned.
//
// A namespaced object without a namespace is in "default", as with kubectl.
//
// # Tiers of Kubernetes
//
// A packet of a pod goes through the tiers in this order, separately for ingress and egress:
//
//  1. Tier kube-admin: Admin rules of ClusterNetworkPolicies. If none decides, the default action
//     is Pass.
//  2. Tier default: NetworkPolicies. If one of them selects the pod for this direction, this tier
//     decides, because its default action is Deny.
//  3. Tier kube-baseline: Baseline rules of ClusterNetworkPolicies. If none decides, the default
//     action is Pass.
//  4. The profile of the namespace allows the packet.
//
// # Nodes
//
// This package makes a network set of each Node, with the node's addresses. The peer "nodes" of a
// ClusterNetworkPolicy becomes a selector that selects these sets. The peer also matches
// host-networked pods, because they have the addresses of their node. Host-networked pods are not
// endpoints, so selectors of pods never match them, neither in the subject of a policy nor in a
// peer.
//
// Selectors of Calico policies must not match these network sets by accident. A selector such as
// all() or a != "b" would match them, because it also matches objects that lack the labels in the
// selector. So this package adds the condition !has(wayleave.dev/node.projectcalico.org/name) to
// such a selector, unless the selector itself names a label that begins with NodeLabelPrefix. It
// cannot do so for policies that it did not convert: all() in them also matches the network sets of
// nodes.
//
// # Deviations
//
// From Kubernetes:
//
//   - A namespaceSelector with NotIn or DoesNotExist matches if a label is absent. But the labels
//     of a pod's namespace are unknown until the Namespace object, or a Calico Profile "kns.NAME"
//     instead of it, has been converted. Until then, such a selector does not match the pod, unless
//     it selects by the namespace's name, which is known. A Deny rule of a ClusterNetworkPolicy is
//     the exception. In the peers of this rule, NotIn and DoesNotExist match the pod. The same
//     holds for the subject of the policy, as far as this rule is concerned. For Accept and Pass
//     rules of the same policy, NotIn and DoesNotExist do not match the pod.
//   - This package reserves the labels that it sets itself: projectcalico.org/namespace,
//     .../orchestrator, .../serviceaccount, pcns.*, pcsa.* and wayleave.dev/node.*. If a pod,
//     network set or endpoint has a reserved label, the label is left out and reported. A Calico
//     WorkloadEndpoint may have three of them: see Converter.CalicoWorkloadEndpoint. So no pod can
//     pretend to be in another namespace, or to be a node. A podSelector is evaluated as if no pod
//     had reserved labels. So In, Exists and matchLabels with a reserved label never match, and
//     NotIn and DoesNotExist always match. Such a selector is reported with ErrIgnored. Selectors
//     of Calico policies may use reserved labels.
//   - An IPv4 prefix in IPv6 form (::ffff:0.0.0.0/96) is not understood in an ipBlock or its
//     exceptions, and in the networks of a ClusterNetworkPolicy. A rule with such a prefix is
//     closed. In Calico objects, such a prefix means the IPv4 prefix.
//   - An exception (`except`) of an ipBlock that is outside of the block's cidr has no effect. The
//     API server refuses it.
//   - ClusterNetworkPolicy: peers by domainNames are not supported, and a rule with such a peer is
//     closed. This package accepts objects with more than 25 rules, peers, protocols or networks,
//     and objects with a range of a single port. The API server refuses such objects. The API does
//     not define the order of policies with equal priority. Here they are sorted bytewise by
//     "kcnp.NAME//Policy", like all policies of equal order.
//   - EndpointSlice: an endpoint is used while it is serving, even if it is not ready.
//   - Hostnames among the addresses of a Node are ignored, even those that look like addresses.
//   - Host ports of pods have no effect. Annotations of pods other than those of this package have
//     no effect either. So Calico's annotations for floating addresses and allowed sources are
//     ignored.
//
// From Calico:
//
//   - A rule with any error is closed. A match on the application layer (http) is such an error.
//   - Package manifest refuses a field with the value null in the spec. If you decode objects
//     yourself into the types of package calico, null cannot be distinguished from an absent field.
//   - Names of policies must not begin with "knp.default." or "kcnp.", and names of global network
//     sets must not begin with "knode.".
//   - If the stagedAction of a staged object is Set, Learn or missing, the object becomes a staged
//     policy. If it is Delete or Ignore, it becomes nothing (ErrIgnored). To see the effect of a
//     deletion, use verdict.Diff.
//   - IPPool: the fields ipip and nat-outgoing of an older API are refused.
//   - Node: the pod CIDRs of its status are ignored, and so are the settings of spec.bgp other than
//     addresses. The field wireguardPublicKeyV6 is ignored, too, because a node uses one WireGuard
//     key for both families.
//   - WorkloadEndpoint: a port without a name is left out, and quality of service is ignored.
//
// # Back to the objects
//
// Errors and explanations name resources by key. Origin returns the API object for such a key.
// Counters and logs name rules by ID. For a policy object, Converter.RuleOrigins returns the origin
// of each rule by this ID: the rule of the object, and its peers and ports.
//
// # Concurrency
//
// A Converter is safe for concurrent use. It does not change the objects that it reads. The
// returned resources share no memory with these objects, except strings.
//
// # Errors
//
// Every problem is an *Error with the object and the path of the field.
package convert
