// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// kernel returns the kernel state of the node in which objects of an endpoint can be.
func (r *rig) kernel() string {
	r.t.Helper()
	// A new link gets its carrier up to a second later, and then the kernel adds its IPv6 routes.
	carrier := regexp.MustCompile(`<[A-Z0-9_,-]+>| state [A-Z]+|(?m:^.* dev way.* proto kernel .*\n)`)
	var all strings.Builder
	for _, command := range []string{
		"nft -s list ruleset", "ip -o -4 route show table all", "ip -o -6 route show table all", "ip neigh show",
		"ip -o link show type veth",
	} {
		words := strings.Fields(command)
		var out []byte
		require.NoError(r.t, r.node.Do(func() (err error) {
			out, err = exec.Command(words[0], words[1:]...).CombinedOutput()
			return err
		}), "%s: %s", command, out)
		all.WriteString(nstest.WithoutEpoch(carrier.ReplaceAllString(string(out), "")))
	}
	return all.String()
}

// hostInterface returns the name of the node's side of the link of the only container.
func (r *rig) hostInterface() string {
	r.t.Helper()
	endpoints, err := api.Get[[]api.Endpoint](r.t.Context(), r.client, "/v1/endpoints")
	require.NoError(r.t, err)
	require.Len(r.t, endpoints, 1)
	return endpoints[0].Interface
}

// When DEL returns, the kernel has no object of the container, and another container can get its
// address.
func TestDeleteRemovesAllObjects(t *testing.T) {
	r := newRig(t)
	require.NoError(t, os.WriteFile(r.path("manifests/policy.yaml"), []byte(allow80), 0o600))
	r.startAgent()
	before := r.kernel()
	require.Contains(t, before, "table inet wayleave")
	for _, container := range []*netns.NS{nstest.New(t), nstest.New(t)} {
		for _, ip := range []string{"10.0.0.1/32", "2001:db8::1/128"} {
			r.must("add", container, ip)
			addr, _, _ := strings.Cut(ip, "/")
			require.Contains(t, r.kernel(), addr)
			r.must("del", container, "")
			require.Equal(t, before, r.kernel())
		}
	}
	r.stopAgent()
}

// While no agent runs, DEL removes the file of the container. The next agent removes the container
// from the kernel before it adds another one.
func TestRemovedWhileNoAgentRuns(t *testing.T) {
	r := newRig(t)
	require.NoError(t, os.WriteFile(r.path("manifests/policy.yaml"), []byte(allow80), 0o600))
	one, two := nstest.New(t), nstest.New(t)
	r.must("del", one, "") // the container was never added
	r.startAgent()
	r.must("add", one, "10.0.0.1/32")
	name := r.hostInterface()
	r.stopAgent()
	for range 2 {
		r.must("del", one, "")
	}
	require.Contains(t, r.kernel(), name, "no agent runs that could remove it")
	_, err := r.node.Link(name)
	require.Error(t, err, "the link and its routes are removed")
	out, err := r.runtime("add", two, "10.0.0.1/32")
	require.Error(t, err)
	require.Contains(t, out, "no agent is running there", "no container gets the address meanwhile")

	r.startAgent()
	require.NotContains(t, r.kernel(), name)
	r.must("add", two, "10.0.0.1/32")
	r.must("check", two, "")
	r.stopAgent()
}

// While an agent holds the lock of its socket, DEL does not change the agent's files. This holds
// even if the agent does not answer, because it is stopped or its socket was removed. Once the lock
// is free, DEL succeeds.
func TestDeleteLeavesFilesOfARunningAgent(t *testing.T) {
	r := newRig(t)
	require.NoError(t, os.WriteFile(r.path("manifests/policy.yaml"), []byte(allow80), 0o600))
	one := nstest.New(t)
	r.startAgent()
	r.must("add", one, "10.0.0.1/32")
	files := func() int {
		entries, err := os.ReadDir(r.path("endpoints"))
		require.NoError(t, err)
		return len(entries)
	}
	require.NoError(t, os.Rename(r.path("agent.sock"), r.path("moved")))
	nstest.Stop(t, r.agent.Process)
	before := r.kernel()
	out, err := r.runtime("del", one, "")
	require.Error(t, err)
	require.Contains(t, out, "the container may still be in the kernel")
	require.Contains(t, out, "an agent is running there already")
	require.Equal(t, 1, files())
	require.Equal(t, before, r.kernel())

	require.NoError(t, r.agent.Process.Kill())
	require.Error(t, r.agent.Wait())
	r.must("del", one, "")
	require.Zero(t, files())
	r.startAgent()
	require.NotContains(t, r.kernel(), "10.0.0.1")
	r.stopAgent()
}

// If the agent is stopped, the errors of DEL and ADD describe what to do.
func TestStoppedAgentIsNamed(t *testing.T) {
	r := newRig(t)
	one, two := nstest.New(t), nstest.New(t)
	r.startAgent()
	r.must("add", one, "10.0.0.1/32")
	nstest.Stop(t, r.agent.Process)
	r.timeout = "100ms" // nothing answers, however long
	r.configure("1.0.0")
	for _, row := range []struct{ command, want string }{
		{"del", "the container may still be in the kernel"}, {"check", "the agent does not answer"},
	} {
		out, err := r.runtime(row.command, one, "")
		require.Error(t, err)
		require.Contains(t, out, row.want)
		require.Contains(t, out, "within 100ms: it is stopped")
		require.NotContains(t, out, "context deadline exceeded")
	}
	out, err := r.runtime("add", two, "10.0.0.2/32")
	require.Error(t, err)
	require.Contains(t, out, "within 100ms: it is stopped")
	require.NoError(t, r.agent.Process.Kill())
	require.Error(t, r.agent.Wait())
}

// ADD is refused if another container has the address. It succeeds after that container is removed.
func TestAddressOfAnotherContainerIsRefused(t *testing.T) {
	r := newRig(t)
	one, two := nstest.New(t), nstest.New(t)
	r.startAgent()
	r.must("add", one, "10.0.0.1/32")
	before := r.kernel()
	out, err := r.runtime("add", two, "10.0.0.1/32")
	require.Error(t, err)
	require.Contains(t, out, "10.0.0.1 belongs to endpoint cni/")
	require.Equal(t, before, r.kernel())
	r.must("check", one, "")
	r.must("del", one, "")
	r.must("add", two, "10.0.0.1/32")
	r.must("del", two, "")
	r.stopAgent()
}

// A pod may be added in a new sandbox before its old sandbox is removed. A removal of the old
// sandbox, even if repeated, does not remove the new one.
func TestAnotherSandboxOfThePod(t *testing.T) {
	r := newRig(t)
	r.args = [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "shop"}, {"K8S_POD_NAME", "web"}}
	before, after := nstest.New(t), nstest.New(t)
	r.startAgent()
	r.must("add", before, "10.0.0.1/32")
	r.must("add", after, "10.0.0.2/32")
	r.must("del", before, "")
	r.must("check", after, "")
	r.stopAgent()
	r.must("del", before, "")
	r.startAgent()
	r.must("check", after, "")
	require.NotContains(t, r.kernel(), "10.0.0.1 ")
	r.must("del", after, "")
	endpoints, err := api.Get[[]api.Endpoint](t.Context(), r.client, "/v1/endpoints")
	require.NoError(t, err)
	require.Empty(t, endpoints)
	r.stopAgent()
}

// DEL of an old sandbox leaves the link of a new one that is not registered yet: ADD would fail, or
// the pod would lose its link after it.
func TestDeleteLeavesTheLinkOfAnotherSandbox(t *testing.T) {
	r := newRig(t)
	r.args = [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "shop"}, {"K8S_POD_NAME", "web"}}
	before, after := nstest.New(t), nstest.New(t)
	r.startAgent()
	r.must("add", before, "10.0.0.1/32")
	name := r.hostInterface()
	require.NoError(t, r.node.Do(func() error {
		_, err := connect(linkConfig{
			namespace: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), after.FD()), inside: "eth0", outside: name,
			mac: net.HardwareAddr{2, 0, 0, 0, 0, 1}, addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")},
		})
		return err
	}))
	for range 2 {
		r.must("del", before, "")
		_, err := r.node.Link(name)
		require.NoError(t, err)
		require.NotContains(t, r.kernel(), "10.0.0.1")
	}
	r.must("add", after, "10.0.0.2/32")
	r.must("check", after, "")
	r.must("del", after, "")
	_, err := r.node.Link(name)
	require.Error(t, err)
	r.stopAgent()
}
