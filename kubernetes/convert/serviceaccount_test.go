// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServiceAccount(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name: "robot", Labels: map[string]string{"team": "a", "projectcalico.org/name": "lies"},
	}}
	profile, problems := convert.Converter{}.ServiceAccount(account)
	require.Empty(t, problems)
	require.Equal(t, &policy.Profile{ // S143 for the namespace
		Name:          "ksa.default.robot",
		LabelsToApply: map[string]string{"pcsa.team": "a", "pcsa.projectcalico.org/name": "robot"},
	}, profile)

	account.Labels["a b"] = ""
	profile, problems = convert.Converter{}.ServiceAccount(account)
	require.Nil(t, profile)
	require.Len(t, problems, 1)
	require.ErrorContains(t, problems[0], `ServiceAccount default/robot: metadata.labels["a b"]`)
}

// Names of the maximum length of Kubernetes have valid and different profiles.
func TestLongServiceAccountNamesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{
		strings.Repeat("a", 190), strings.Repeat("a", 191), strings.Repeat("a", 253), strings.Repeat("a", 252) + "b",
	} {
		meta := metav1.ObjectMeta{Namespace: strings.Repeat("n", 63), Name: name}
		profile, problems := convert.Converter{}.ServiceAccount(&corev1.ServiceAccount{ObjectMeta: meta})
		require.Empty(t, problems)
		require.False(t, seen[profile.Name])
		seen[profile.Name] = true

		pod := testPod()
		pod.Namespace, pod.Spec.ServiceAccountName = meta.Namespace, name
		endpoint, problems := convert.Converter{}.Pod(pod)
		require.Empty(t, problems)
		require.Equal(t, profile.Name, endpoint.Profiles[1])
	}
}

// Rules select pods by the labels of their service account. Without the ServiceAccount object, only
// these labels are missing.
func TestServiceAccountLabels(t *testing.T) {
	const accounts = "apiVersion: v1\nkind: ServiceAccount\n" +
		"metadata: {name: robot, namespace: shop, labels: {trust: high}}\nautomountServiceAccountToken: false\n---\n" +
		"apiVersion: v1\nkind: Pod\nmetadata: {name: arm, namespace: shop}\nspec: {nodeName: n1, serviceAccountName: " +
		"robot, containers: [{name: c}]}\nstatus: {podIPs: [{ip: 10.0.0.9}]}\n---\n"
	const arm = "10.0.0.9"
	resources, problems := manifest.Decode("test.yaml", []byte(cluster+accounts+v3+
		"kind: GlobalNetworkPolicy\nmetadata: {name: a}\nspec: {selector: app == 'web', ingress: [{action: Allow, "+
		"source: {serviceAccounts: {selector: trust == 'high'}}}]}\n"))
	require.Empty(t, problems)
	check(t, resources, []probe{
		{arm, web, tcp, 80, yes}, {cart, web, tcp, 80, no}, {web, cart, tcp, 80, yes}, {web, arm, tcp, 80, yes},
	})

	resources, problems = manifest.Decode("test.yaml", []byte(cluster+accounts+v3+
		"kind: GlobalNetworkPolicy\nmetadata: {name: a}\nspec: {serviceAccountSelector: trust == 'high'}\n"))
	require.Empty(t, problems)
	check(t, resources, []probe{{cart, arm, tcp, 80, no}, {cart, web, tcp, 80, yes}})
}
