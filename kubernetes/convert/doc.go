// SPDX-License-Identifier: Apache-2.0

// Package convert turns Kubernetes and Calico v3 API objects into the resources that
// Wayleave works from.
//
//	Kubernetes v1 Namespace          -> Profile "kns.NAME": allows all; labels "pcns.*"
//	Kubernetes v1 Pod                -> WorkloadEndpoint, if the pod has a network of its own
//	networking.k8s.io/v1
//	  NetworkPolicy                  -> Policy "knp.default.NAME" in the default tier, order 1000
//	projectcalico.org/v3
//	  GlobalNetworkPolicy,
//	  NetworkPolicy                  -> Policy of the same name
//	  Tier, Profile                  -> Tier, Profile
//	  GlobalNetworkSet, NetworkSet   -> NetworkSet
//
// # Usage
//
// A Converter turns one object into at most one resource. It knows nothing of other
// objects and keeps no state: the same object always gives the same resource.
//
//	resource, problems := convert.Converter{}.Convert(pod)
//
// The resource may be nil without a problem (a pod that has no address yet), be there without
// or with problems (a NetworkPolicy with one bad rule), or be nil with problems.
//
// # What is left out
//
// An object that cannot be understood whole gives no resource, only problems. The exception is
// a rule of a Kubernetes NetworkPolicy: such rules can only allow, so a rule
// with a bad peer or port is left out alone, and the policy stays in force with the others.
//
// A namespaced object without a namespace is in "default", as with kubectl. A pod whose
// Namespace object is missing lists a profile that does not exist, and so may do only what
// policies allow: give the Namespace objects along, "default" included.
//
// # Deviations from Kubernetes and Calico
//
//   - Pods do not list a profile "ksa.NS.NAME" of their service account, because
//     ServiceAccount objects are not converted yet and a profile that does not exist
//     denies everything. The label projectcalico.org/serviceaccount is set, so names of
//     service accounts can be matched, their labels cannot.
//   - A peer with a namespaceSelector that could match for want of a label (NotIn,
//     DoesNotExist) matches only pods whose Namespace object is known.
//   - Labels that this package sets itself (projectcalico.org/namespace,
//     .../orchestrator, .../serviceaccount, pcns.*, pcsa.*) are refused on pods and
//     network sets, so that nobody can pose as a member of another namespace. A
//     podSelector that asks for one is refused too: to Kubernetes no pod has it. Calico
//     policies may ask for them.
//   - `except` blocks of an ipBlock that are outside its cidr have no effect; the API server
//     refuses them.
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
