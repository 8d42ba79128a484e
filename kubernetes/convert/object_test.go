// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// Origin returns the object from which a resource was converted.
func TestOrigin(t *testing.T) {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "1"}
	}
	networking := networkingv1.SchemeGroupVersion
	v3, staged := schema.GroupVersion{Group: "projectcalico.org", Version: "v3"}, policy.KindStagedPolicy
	for _, c := range []struct {
		object  metav1.Object
		version schema.GroupVersion
		kind    string
	}{
		{&networkingv1.NetworkPolicy{ObjectMeta: meta("shop", "web")}, networking, "NetworkPolicy"},
		{&corev1.Namespace{ObjectMeta: meta("", "shop")}, corev1.SchemeGroupVersion, "Namespace"},
		{&corev1.ServiceAccount{ObjectMeta: meta("shop", "a.b")}, corev1.SchemeGroupVersion, "ServiceAccount"},
		{testPod(), corev1.SchemeGroupVersion, "Pod"},
		{&calico.Profile{ObjectMeta: meta("", "p")}, v3, "Profile"},
	} {
		resources, problems := convert.Converter{}.Convert(c.object)
		require.Empty(t, problems)
		require.Len(t, resources, 1)
		got, ok := convert.Origin(resources[0].Key())
		require.True(t, ok)
		require.Equal(t, convert.Object{
			APIVersion: c.version.String(), Kind: c.kind, Namespace: c.object.GetNamespace(), Name: c.object.GetName(),
		}, got)
	}
	for key, want := range map[policy.Key]string{
		{Kind: policy.KindPolicy, Name: "kcnp.a"}:                           "ClusterNetworkPolicy a",
		{Kind: policy.KindPolicy, Name: "a"}:                                "GlobalNetworkPolicy a",
		{Kind: policy.KindPolicy, Namespace: "shop", Name: "a"}:             "NetworkPolicy shop/a",
		{Kind: staged, Name: "a"}:                                           "StagedGlobalNetworkPolicy a",
		{Kind: staged, Namespace: "shop", Name: "a"}:                        "StagedNetworkPolicy shop/a",
		{Kind: staged, Namespace: "shop", Name: "knp.default.a"}:            "StagedKubernetesNetworkPolicy shop/a",
		{Kind: policy.KindNetworkSet, Name: "knode.n1"}:                     "Node n1",
		{Kind: policy.KindNetworkSet, Name: "a"}:                            "GlobalNetworkSet a",
		{Kind: policy.KindNetworkSet, Namespace: "shop", Name: "a"}:         "NetworkSet shop/a",
		{Kind: policy.KindHostEndpoint, Name: "n1-eth0"}:                    "HostEndpoint n1-eth0",
		{Kind: policy.KindTier, Name: "security"}:                           "Tier security",
		{Kind: policy.KindIPPool, Name: "pool"}:                             "IPPool pool",
		{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}: "Pod shop/web",
	} {
		got, ok := convert.Origin(key)
		require.True(t, ok)
		require.Equal(t, want, got.String())
	}
	_, ok := convert.Origin(policy.Key{Kind: policy.KindNode, Name: "n1"})
	require.False(t, ok)
}

// An Error has the fields that an Event needs, with the API version of the object's type.
func TestErrorNamesTheObject(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "Not a name", UID: "7"}
	for version, object := range map[string]metav1.Object{
		networkingv1.SchemeGroupVersion.String(): &networkingv1.NetworkPolicy{ObjectMeta: meta},
		corev1.SchemeGroupVersion.String():       &corev1.ServiceAccount{ObjectMeta: meta},
		discoveryv1.SchemeGroupVersion.String():  &discoveryv1.EndpointSlice{ObjectMeta: meta},
		policyv1alpha2.GroupVersion.String():     &policyv1alpha2.ClusterNetworkPolicy{ObjectMeta: meta},
		calico.APIVersion:                        &calico.NetworkPolicy{ObjectMeta: meta},
	} {
		_, problems := convert.Converter{}.Convert(object)
		require.NotEmpty(t, problems, version)
		for _, problem := range problems {
			var e *convert.Error
			require.ErrorAs(t, problem, &e)
			require.Equal(t, version, e.Object.APIVersion)
			require.Equal(t, meta.UID, e.Object.UID)
			require.Equal(t, meta.Name, e.Object.Name)
			require.True(t, e.Absent)
		}
	}
}

// Absent is set in an Error if the whole object is absent, but not if a part of it is left out or
// closed.
func TestErrorOfAbsentObject(t *testing.T) {
	operator := metav1.LabelSelectorRequirement{Key: "app", Operator: "in", Values: []string{"web"}}
	wrong := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{operator}}
	np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	np.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{
		From: []networkingv1.NetworkPolicyPeer{{PodSelector: &wrong}},
	}}
	for absent, selector := range map[bool]metav1.LabelSelector{false: {}, true: wrong} {
		np.Spec.PodSelector = selector
		p, problems := convert.Converter{}.NetworkPolicy(np)
		require.Equal(t, absent, p == nil)
		require.NotEmpty(t, problems)
		for _, problem := range problems {
			var e *convert.Error
			require.ErrorAs(t, problem, &e)
			require.Equal(t, absent, e.Absent)
		}
	}
}
