// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// clusterNetworkPolicies is the apiVersion of ClusterNetworkPolicy.
const clusterNetworkPolicies = "policy.networking.k8s.io/v1alpha2"

// newObject returns an empty object of a kind, or nil for a kind that is not converted.
func newObject(id identity) metav1.Object {
	switch id.apiVersion + " " + id.kind {
	case "v1 Namespace":
		return &corev1.Namespace{}
	case "v1 ServiceAccount":
		return &corev1.ServiceAccount{}
	case "v1 Pod":
		return &corev1.Pod{}
	case "v1 Node":
		return &corev1.Node{}
	case "v1 Service":
		return &corev1.Service{}
	case "discovery.k8s.io/v1 EndpointSlice":
		return &discoveryv1.EndpointSlice{}
	case "networking.k8s.io/v1 NetworkPolicy":
		return &networkingv1.NetworkPolicy{}
	case clusterNetworkPolicies + " ClusterNetworkPolicy":
		return &policyv1alpha2.ClusterNetworkPolicy{}
	}
	if id.apiVersion == calico.APIVersion {
		return calico.New(id.kind)
	}
	return nil
}

// itemKind reports whether a kind is a list. For a list of one kind, such as PodList, it returns
// that kind, because its items need not have one.
func itemKind(id identity) (item identity, isList bool) {
	if id.apiVersion == "v1" && id.kind == "List" {
		return identity{}, true
	}
	kind, ok := strings.CutSuffix(id.kind, "List")
	item = identity{apiVersion: id.apiVersion, kind: kind}
	return item, ok && newObject(item) != nil
}
