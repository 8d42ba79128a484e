// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// S136, S154, S155, S167: rules with errors are closed, in policies of Calico and of Kubernetes.
// The policies are reported as in doubt.
func TestInvalidRulesAreClosed(t *testing.T) {
	gnp := func(rules string) string {
		return v3 + "kind: GlobalNetworkPolicy\nmetadata: {name: a}\n" +
			"spec: {order: 1, selector: app == 'web', ingress: [" + rules + "]}\n"
	}
	const np = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: test, namespace: shop}\nspec: "
	for _, tt := range []struct {
		name, manifest, field string
		probes                []probe
	}{
		{
			"Deny with a bad port",
			gnp("{action: Deny, protocol: TCP, destination: {ports: [80, 99999]}}, {action: Allow}"),
			"spec.ingress[0].destination.ports[1]",
			[]probe{{rat, web, tcp, 80, no}, {rat, web, tcp, 81, no}, {web, beyond, tcp, 80, yes}},
		},
		{
			"a rule before it", gnp("{action: Allow, protocol: TCP, destination: {ports: [81]}}, {action: Pass, " +
				"source: {selector: 'a =='}}"), "spec.ingress[1].source.selector",
			[]probe{{rat, web, tcp, 80, no}, {rat, web, tcp, 81, yes}},
		},
		{
			"Allow with an unknown field",
			gnp("{action: Allow, sauce: {}}, {action: Allow, protocol: TCP, destination: {ports: [81]}}"),
			"spec.ingress[0].sauce",
			[]probe{{rat, web, tcp, 80, no}, {rat, web, tcp, 81, yes}},
		},
		{
			"Log with a bad net", gnp("{action: Log, source: {nets: [x]}}, {action: Allow}"),
			"spec.ingress[0].source.nets[0]",
			[]probe{{rat, web, tcp, 80, yes}},
		},
		{
			"no known action", gnp("{action: Alow}, {action: Allow}"), "spec.ingress[0].action",
			[]probe{{rat, web, tcp, 80, no}},
		},
		{
			"NetworkPolicy", np + ingress("[{ports: [{port: 80}, {port: 99999}]}, {ports: [{port: 81}]}]"),
			"spec.ingress[0].ports[1].port",
			[]probe{{rat, web, tcp, 80, no}, {rat, web, tcp, 81, yes}},
		},
		{
			"ClusterNetworkPolicy", cnp("a", "Admin", 1, "ingress: ["+from("Deny", "{moons: {}}", "")+"]"),
			"spec.ingress[0].from[0].moons",
			[]probe{{rat, web, tcp, 80, no}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(cluster+tt.manifest))
			require.Len(t, problems, 1)
			require.ErrorContains(t, problems[0], tt.field+": ")
			check(t, resources, tt.probes)
			w := verdict.World{}
			w.Set(resources...)
			doubts := verdict.New(w).Doubts()
			require.Len(t, doubts, 1)
			for key, err := range doubts {
				require.ErrorContains(t, err, tt.field+": ")
				require.Equal(t, err, error(w[key].(*policy.Policy).Doubts()))
			}
		})
	}
}
