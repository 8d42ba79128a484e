// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// stray is a pod of a namespace whose object is missing. A NetworkPolicy allows all its traffic.
const (
	stray = "apiVersion: v1\nkind: Pod\nmetadata: {name: stray, namespace: gone, labels: {app: web}}\n" +
		"spec: {nodeName: n1, serviceAccountName: robot, containers: [{name: c}]}\n" +
		"status: {podIPs: [{ip: 10.0.3.1}]}\n---\n" +
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: open, namespace: gone}\n" +
		"spec: {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}\n---\n" +
		v3 + "kind: NetworkSet\nmetadata: {name: far, namespace: gone}\nspec: {nets: [198.51.100.0/24]}\n---\n"
	lost = "10.0.3.1"
)

// The objects in a namespace have its name, so selectors of the name work without the Namespace
// object. S141
func TestNamespaceIsSelectedByNameWithoutObject(t *testing.T) {
	const byName = "{namespaces: {matchLabels: {kubernetes.io/metadata.name: gone}}}"
	notIn := func(name string) string {
		return "{matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [" + name + "]}]}"
	}
	np := func(peer string) string {
		return "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n" +
			"metadata: {name: test, namespace: shop}\nspec: " + ingress("[{from: ["+peer+"]}]") + "\n---\n"
	}
	gnp := func(rule string) string {
		return v3 + "kind: GlobalNetworkPolicy\nmetadata: {name: a}\n" +
			"spec: {order: 1, selector: app == 'web', ingress: [" + rule + ", {action: Allow}]}\n---\n"
	}
	tests := []struct {
		name, policies string
		probes         []probe
	}{
		{"nothing", "", []probe{{lost, web, tcp, 80, yes}, {beyond, web, tcp, 80, yes}}},
		{"deny", cnp("a", "Admin", 1, "ingress: ["+from("Deny", byName, "")+"]"), []probe{
			{lost, web, tcp, 80, no}, {rat, web, tcp, 80, yes},
		}},
		{"deny the subject", cnpFor("a", "Admin", 1, byName, "egress: ["+to("Deny", all, "")+"]"), []probe{
			{lost, web, tcp, 80, no}, {rat, web, tcp, 80, yes},
		}},
		{"accept others", cnp("a", "Admin", 1, "ingress: ["+from("Accept", "{namespaces: "+notIn("gone")+"}", "")+", "+
			from("Deny", all, "")+"]"), []probe{{lost, web, tcp, 80, no}, {rat, web, tcp, 80, yes}}},
		{"accept all but another", cnp("a", "Admin", 1, "ingress: ["+from("Accept", "{namespaces: "+notIn("lab")+"}",
			"")+", "+from("Deny", all, "")+"]"), []probe{{lost, web, tcp, 80, yes}, {rat, web, tcp, 80, no}}},
		{"deny all namespaces", cnp("a", "Admin", 1, "ingress: ["+from("Deny", all, "")+"]"), []probe{
			{lost, web, tcp, 80, no},
		}},
		{"allow by name", np("{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: gone}}}"), []probe{
			{lost, web, tcp, 80, yes}, {rat, web, tcp, 80, no}, {beyond, web, tcp, 80, no},
		}},
		{"allow all namespaces", np("{namespaceSelector: {}}"), []probe{
			{lost, web, tcp, 80, yes}, {rat, web, tcp, 80, yes}, {beyond, web, tcp, 80, no},
		}},
		{"allow for want of another label", np("{namespaceSelector: {matchExpressions: [{key: team, operator: " +
			"DoesNotExist}]}}"), []probe{{lost, web, tcp, 80, no}, {plain, web, tcp, 80, yes}}},
		{"Calico", gnp("{action: Deny, source: {namespaceSelector: kubernetes.io/metadata.name == 'gone'}}"), []probe{
			{lost, web, tcp, 80, no}, {beyond, web, tcp, 80, no}, {rat, web, tcp, 80, yes},
		}},
		{"Calico's name", gnp("{action: Deny, source: {namespaceSelector: projectcalico.org/name == 'gone'}}"), []probe{
			{lost, web, tcp, 80, no}, {rat, web, tcp, 80, yes},
		}},
		{"service account", gnp("{action: Deny, source: {serviceAccounts: {selector: projectcalico.org/name " +
			"== 'robot'}}}"), []probe{{lost, web, tcp, 80, no}, {rat, web, tcp, 80, yes}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(cluster+stray+tt.policies))
			require.Empty(t, problems)
			check(t, resources, tt.probes)
		})
	}
}

// The labels of a namespace are known from its Namespace object or from Calico's profile of it.
func TestCalicoProfileHasLabelsOfNamespace(t *testing.T) {
	resources, problems := manifest.Decode("test.yaml", []byte(cluster+stray+
		v3+
		"kind: Profile\nmetadata: {name: kns.gone}\nspec: {labelsToApply: {pcns.projectcalico.org/name: gone}}\n---\n"+
		cnp("a", "Admin", 1, "ingress: ["+from("Accept", "{namespaces: {matchExpressions: [{key: team, operator: "+
			"DoesNotExist}]}}", "")+", "+from("Deny", all, "")+"]")))
	require.Empty(t, problems)
	check(t, resources, []probe{{lost, web, tcp, 80, yes}, {rat, web, tcp, 80, no}})
}

// A pod with a reserved label cannot evade rules that deny it.
func TestReservedLabelDoesNotEvade(t *testing.T) {
	evader := strings.Replace(cluster, "metadata: {name: rat, namespace: lab, labels: {app: web}}",
		"metadata: {name: rat, namespace: lab, labels: {app: web, pcns.foo: bar}}", 1)
	resources, problems := manifest.Decode("test.yaml",
		[]byte(evader+cnp("a", "Admin", 1, "ingress: ["+from("Deny", lab, "")+"]")))
	require.Len(t, problems, 1)
	require.ErrorContains(t, problems[0], `metadata.labels["pcns.foo"]: the label is reserved`)
	check(t, resources, []probe{{rat, web, tcp, 80, no}, {cart, web, tcp, 80, yes}})
}

// No pod has a reserved label. A selector of its presence matches no pod, a selector of its absence
// all pods. S138
func TestReservedLabelInSelectors(t *testing.T) {
	for requirement, matches := range map[string]bool{
		"matchLabels: {pcns.team: b, app: web}":                                                      false,
		"matchExpressions: [{key: pcns.team, operator: In, values: [a, b]}]":                         false,
		"matchExpressions: [{key: projectcalico.org/orchestrator, operator: Exists}]":                false,
		"matchExpressions: [{key: pcns.team, operator: NotIn, values: [b]}]":                         true,
		"matchLabels: {app: web}, matchExpressions: [{key: pcns.team, operator: DoesNotExist}]":      true,
		"matchExpressions: [{key: a, operator: Exists}, {key: pcns.team, operator: DoesNotExist}]":   false,
		"matchExpressions: [{key: pcsa.a, operator: DoesNotExist}, {key: pcns.a, operator: Exists}]": false,
	} {
		t.Run(requirement, func(t *testing.T) {
			run := func(policies string, want probe) {
				t.Helper()
				resources, problems := manifest.Decode("test.yaml", []byte(cluster+policies))
				require.NotEmpty(t, problems)
				for _, problem := range problems {
					require.ErrorIs(t, problem, convert.ErrIgnored)
					require.ErrorContains(t, problem, "reserved: no pod has it")
				}
				check(t, resources, []probe{want})
			}
			outcome := map[bool]probe{true: {rat, web, tcp, 80, no}, false: {rat, web, tcp, 80, yes}}
			pods := "{pods: {namespaceSelector: {}, podSelector: {" + requirement + "}}}"
			run(cnp("a", "Admin", 1, "ingress: ["+from("Deny", pods, "")+"]"), outcome[matches])
			run(cnpFor("a", "Admin", 1, pods, "ingress: ["+from("Deny", all, "")+"]"), outcome[matches])
			np := "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n" +
				"metadata: {name: test, namespace: shop}\nspec: "
			run(np+"{podSelector: {"+requirement+"}}", outcome[matches])
			run(np+"{podSelector: {}, ingress: [{from: [{namespaceSelector: {}, podSelector: {"+requirement+"}}]}]}",
				outcome[!matches])
		})
	}
}

// A rule with an unknown action denies all packets that no earlier rule matches. S29, S155
func TestUnknownActionDenies(t *testing.T) {
	for name, rule := range map[string]string{
		"none":              "{from: [" + lab + "]}",
		"of another API":    from("Allow", lab, ""),
		"in small letters":  from("accept", lab, ""),
		"and a bad peer":    from("accept", "{}", ""),
		"and a bad peer, 2": "{from: [{moons: {}}]}",
	} {
		t.Run(name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml", []byte(cluster+cnp("a", "Admin", 1,
				"ingress: ["+from("Accept", lab, ", protocols: [{sctp: {}}]")+", "+rule+", "+from("Accept", all, "")+
					"]")))
			require.ErrorContains(t, errors.Join(problems...), "spec.ingress[1].action: want Accept, Deny or Pass")
			check(t, resources, []probe{{rat, web, sctp, 80, yes}, {rat, web, tcp, 80, no}, {cart, web, tcp, 80, no}})
		})
	}
}

// An IPv4-mapped prefix is refused. Otherwise it could allow all of IPv4. S132
func TestMappedPrefixesAreRefused(t *testing.T) {
	for _, text := range []string{"::ffff:0.0.0.0/96", "::ffff:10.0.0.0/104", "::ffff:10.0.0.1/128", "::ffff:0:0/95"} {
		resources, problems := manifest.Decode("test.yaml", []byte(cluster+
			"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: test, namespace: shop}\nspec: "+
			ingress("[{from: [{ipBlock: {cidr: '"+text+"'}}]}, {from: [{ipBlock: {cidr: 10.0.0.0/8, except: ['"+text+
				"']}}]}]")))
		require.Len(t, problems, 2)
		require.ErrorContains(t, problems[0], "spec.ingress[0].from[0].ipBlock.cidr")
		require.ErrorContains(t, problems[1], "spec.ingress[1].from[0].ipBlock.except[0]")
		check(t, resources, []probe{{cart, web, tcp, 80, no}, {beyond, web, tcp, 80, no}})

		for action, want := range map[string]probe{
			"Accept": {web, beyond, tcp, 80, yes}, "Deny": {web, beyond, tcp, 80, no},
		} {
			resources, problems = manifest.Decode("test.yaml",
				[]byte(cluster+cnp("a", "Admin", 1, "egress: ["+to(action, "{networks: ['"+text+"']}", "")+"]")))
			require.Len(t, problems, 1)
			require.ErrorContains(t, problems[0], "spec.egress[0].to[0].networks[0]")
			check(t, resources, []probe{want})
		}
	}
}

// manyBlocks returns more peers than a policy may have rules. Each peer is a rule of its own.
func manyBlocks(peer string) string {
	peers := make([]string, 10_001)
	for i := range peers {
		peers[i] = fmt.Sprintf(peer, i/256, i%256)
	}
	return strings.Join(peers, ", ")
}

// A NetworkPolicy with rules over the limits still isolates its pods.
func TestNetworkPolicyOverLimitsIsolates(t *testing.T) {
	np := func(rules string) string {
		return "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: test, namespace: shop}\n" +
			"spec: {podSelector: {}, policyTypes: [Ingress, Egress], " + rules + "}"
	}
	blocks := "{from: [" + manyBlocks("{ipBlock: {cidr: 10.%[1]d.%[2]d.0/24, except: [10.%[1]d.%[2]d.9/32]}}") + "]}"
	resources, problems := manifest.Decode("test.yaml",
		[]byte(cluster+np("egress: [{}], ingress: [{from: [{podSelector: {}}]}, "+blocks+"]")))
	require.Len(t, problems, 1, "one rule is over the limit")
	require.ErrorContains(t, problems[0], "spec.ingress[1]: 10001 entries are more than 10000")
	check(t, resources, []probe{{rat, web, tcp, 80, no}, {cart, web, tcp, 80, yes}, {web, rat, tcp, 80, yes}})

	one := "{from: [" + strings.TrimSuffix(strings.Repeat("{podSelector: {}}, ", 6_000), ", ") + "]}"
	resources, problems = manifest.Decode("test.yaml", []byte(cluster+np("egress: [{}], ingress: ["+one+", "+one+"]")))
	require.Len(t, problems, 1, "both rules together are over the limit")
	require.ErrorContains(t, problems[0], "spec.ingress: 12000 entries are more than 10000")
	check(t, resources, []probe{{rat, web, tcp, 80, no}, {cart, web, tcp, 80, no}, {web, rat, tcp, 80, yes}})

	ports := "{ports: [" + strings.TrimSuffix(strings.Repeat("{port: 80}, ", 10_001), ", ") + "]}"
	resources, problems = manifest.Decode("test.yaml",
		[]byte(cluster+np("ingress: [{}], egress: ["+ports+", {ports: [{port: 81}]}]")))
	require.Len(t, problems, 1)
	require.ErrorContains(t, problems[0], "spec.egress[0]")
	check(t, resources, []probe{{web, rat, tcp, 80, no}, {web, rat, tcp, 81, yes}})
}

// Rules of a ClusterNetworkPolicy over the limits deny everything, unless all of them are Accept
// rules.
func TestClusterNetworkPolicyOverLimitsFailsClosed(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("{namespaces: {matchLabels: {team: b}}}, ", 6_000), ", ")
	tests := []struct {
		name, rules, problem string
		probes               []probe
	}{
		{"deny", from("Deny", many+", "+many, ""), "spec.ingress[0]", []probe{
			{rat, web, tcp, 80, no}, {cart, web, tcp, 80, no},
		}},
		{"accept", from("Accept", many+", "+many, "") + ", " + from("Deny", all, ""), "spec.ingress[0]", []probe{
			{rat, web, tcp, 80, no},
		}},
		{"together, with a deny", from("Accept", many, "") + ", " + from("Deny", many, ""), "spec.ingress", []probe{
			{rat, web, tcp, 80, no}, {cart, web, tcp, 80, no},
		}},
		{"together, all accept", from("Accept", many, "") + ", " + from("Accept", many, ""), "spec.ingress", []probe{
			{rat, rat, tcp, 80, yes}, {rat, web, tcp, 80, no},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resources, problems := manifest.Decode("test.yaml",
				[]byte(cluster+isolateWeb+cnp("a", "Admin", 1, "ingress: ["+tt.rules+"]")))
			require.Len(t, problems, 1)
			require.ErrorContains(t, problems[0], tt.problem+": 12000 entries are more than 10000")
			check(t, resources, tt.probes)
		})
	}
}

// The name of a rule that is too long is truncated. The rule is converted.
func TestClusterNetworkPolicyLongRuleName(t *testing.T) {
	p, problems := convert.Converter{}.ClusterNetworkPolicy(&policyv1alpha2.ClusterNetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: policyv1alpha2.ClusterNetworkPolicySpec{
			Tier:    policyv1alpha2.AdminTier,
			Subject: policyv1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
			Ingress: []policyv1alpha2.ClusterNetworkPolicyIngressRule{{
				Name: "a" + strings.Repeat("é", 100_000), Action: "Deny",
				From: []policyv1alpha2.ClusterNetworkPolicyIngressPeer{{Namespaces: &metav1.LabelSelector{}}},
			}},
		},
	})
	require.Empty(t, problems)
	require.Equal(t, "a"+strings.Repeat("é", 199), p.Ingress[0].Metadata.Annotations[convert.AnnotationRuleName])
}

// The profiles of two service accounts have different names, even if one is named like the hashed
// name of the other.
func TestServiceAccountProfilesDiffer(t *testing.T) {
	profile := func(name string) string {
		p, _ := convert.Converter{}.ServiceAccount(&corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name},
		})
		require.IsType(t, &policy.Profile{}, p)
		return p.Name
	}
	seen := map[string]string{}
	names := []string{strings.Repeat("a", 200), strings.Repeat("b", 300), "a~b"}
	for i := 0; i < len(names); i++ {
		name := profile(names[i])
		require.NotContains(t, seen, name)
		seen[name] = names[i]
		if i < 9 {
			names = append(names, strings.TrimPrefix(name, "ksa.a."))
		}
	}
}
