// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

const (
	webPolicy = `{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
"metadata": {"namespace": "shop", "name": "web", "managedFields": [{"manager": "kubectl"}]},
"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}]}}`
	guardPolicy = `{"apiVersion": "projectcalico.org/v3", "kind": "GlobalNetworkPolicy",
"metadata": {"name": "guard"}, "spec": {"egress": [{"action": "Deny"}]}}`
)

// Each rule of a policy of the API has its place in the object. If an object cannot be read, only
// its rules have none.
func TestRuleOriginsOfAPI(t *testing.T) {
	var objects []runtime.Object
	for _, text := range []string{webPolicy, guardPolicy} {
		object := &unstructured.Unstructured{}
		require.NoError(t, object.UnmarshalJSON([]byte(text)))
		objects = append(objects, object)
	}
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), objects...)
	a := &API{cfg: Config{Clients: &Clients{Dynamic: client}}}
	web := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "knp.default.web"}
	guard := policy.Key{Kind: policy.KindPolicy, Name: "guard"}
	require.Equal(t, []string{
		"GlobalNetworkPolicy guard: egress[0]", "NetworkPolicy shop/web: ingress[0].from[0], ports[0]",
	}, texts(a.RuleOrigins(t.Context(), []policy.Key{web, guard})))

	gone := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "gone"}
	client.PrependReactor("get", "networkpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("refused")
	})
	require.Equal(t, []string{"GlobalNetworkPolicy guard: egress[0]"},
		texts(a.RuleOrigins(t.Context(), []policy.Key{web, gone, guard})))
}

func texts(origins map[string]manifest.RuleOrigin) (list []string) {
	for _, o := range origins {
		list = append(list, o.String())
	}
	slices.Sort(list)
	return list
}
