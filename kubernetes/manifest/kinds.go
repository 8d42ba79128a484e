// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newObject returns an empty object of a kind, or nil for a kind that is not converted.
func newObject(id identity) metav1.Object {
	switch id.apiVersion + " " + id.kind {
	case "v1 Namespace":
		return &corev1.Namespace{}
	case "v1 Pod":
		return &corev1.Pod{}
	case "networking.k8s.io/v1 NetworkPolicy":
		return &networkingv1.NetworkPolicy{}
	case calico.APIVersion + " GlobalNetworkPolicy":
		return &calico.GlobalNetworkPolicy{}
	case calico.APIVersion + " NetworkPolicy":
		return &calico.NetworkPolicy{}
	case calico.APIVersion + " Tier":
		return &calico.Tier{}
	case calico.APIVersion + " Profile":
		return &calico.Profile{}
	case calico.APIVersion + " GlobalNetworkSet":
		return &calico.GlobalNetworkSet{}
	case calico.APIVersion + " NetworkSet":
		return &calico.NetworkSet{}
	}
	return nil
}

// itemKind reports whether a kind is a list. For a list of one kind, such as PodList, whose
// items need not say what they are, it returns what they are.
func itemKind(id identity) (item identity, isList bool) {
	if id.apiVersion == "v1" && id.kind == "List" {
		return identity{}, true
	}
	kind, ok := strings.CutSuffix(id.kind, "List")
	item = identity{apiVersion: id.apiVersion, kind: kind}
	return item, ok && newObject(item) != nil
}
