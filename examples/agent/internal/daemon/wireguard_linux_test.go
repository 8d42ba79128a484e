// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// With WireGuard, policy is programmed also where the kernel has no WireGuard: then the status has
// the error, and otherwise the key.
func TestWireguardBesidePolicy(t *testing.T) {
	node, dir := shop(t)
	keys := t.TempDir()
	r := startWith(t, node, dir, t.TempDir(), map[string]string{"wireguard": "true", "wireguard-dir": keys})
	r.until(t, func(s pipeline.State) bool { return s.InSync && s.Table() != nil })
	status := get[api.Status](t, r, "/v1/status")
	require.Equal(t, map[string]int{"up": 2}, status.Endpoints)
	if status.Wireguard == nil {
		require.Contains(t, status.LastError, "wireguard")
	} else {
		require.Len(t, status.Wireguard.Keys, 1)
		r.log.await(t, "announce these WireGuard keys")
	}
	info, err := os.Stat(keys + "/first.key")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.NotContains(t, r.log.String(), "earlier run")
	r.end(t)
}

// ipRules returns the rules of a node.
func ipRules(t *testing.T, node *netns.NS, command ...string) (out string) {
	t.Helper()
	require.NoError(t, node.Do(func() error {
		data, err := exec.Command("ip", append([]string{"rule"}, command...)...).CombinedOutput()
		out = string(data)
		return err
	}), &out)
	return out
}

// An agent without WireGuard withdraws the keys of an earlier run, whose objects are in the kernel.
// It does not remove these yet: other nodes may still use the keys.
func TestWireguardKeysAreWithdrawn(t *testing.T) {
	n := newKubernetesNode(t)
	ipRules(t, n.node, "add", "from", "all", "lookup", "22361", "priority", "100", "protocol", "236")
	nodes := n.server.client.CoreV1().Nodes()
	_, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Annotations: map[string]string{convert.AnnotationWireguardKeys: "one:51820", "other": "kept"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	n.begin("kubernetes-report", "false")
	n.log.await(t, "withdrew the WireGuard keys")
	now, err := nodes.Get(t.Context(), "n", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{convert.AnnotationWireguardKeys: convert.NoWireguardKeys, "other": "kept"},
		now.Annotations)
	require.Contains(t, ipRules(t, n.node), "22361")
	n.end(t)
}

// While the API refuses to withdraw the keys of an earlier run, the status and the note of /readyz
// have the reason.
func TestRefusedWithdrawalIsReported(t *testing.T) {
	n := newKubernetesNode(t)
	ipRules(t, n.node, "add", "from", "all", "lookup", "22361", "priority", "100", "protocol", "236")
	var refuse atomic.Bool
	refuse.Store(true)
	n.server.client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		return refuse.Load(), nil, apierrors.NewForbidden(corev1.Resource("nodes"), "n", errors.New("no right"))
	})
	n.begin("kubernetes-report", "false")
	const reason = `withdraw the WireGuard keys: kube: patch Node n: nodes "n" is forbidden: no right`
	n.eventually(func(s api.Status) bool { return s.Wireguard != nil })
	require.Equal(t, &api.Wireguard{RemovalError: reason}, get[api.Status](t, n.running, "/v1/status").Wireguard)
	_, body := n.http(t, "/readyz")
	require.Contains(t, body, `{"name":"wireguard","ok":true,"note":"the WireGuard objects of an earlier run stay`)
	require.Contains(t, ipRules(t, n.node), "22361")

	refuse.Store(false)
	n.log.await(t, "removed the WireGuard objects of an earlier run")
	n.eventually(func(s api.Status) bool { return s.Wireguard == nil })
	_, body = n.http(t, "/readyz")
	require.Contains(t, body, `{"name":"wireguard","ok":true}`)
	require.NotContains(t, ipRules(t, n.node), "22361")
	n.end(t)
}
