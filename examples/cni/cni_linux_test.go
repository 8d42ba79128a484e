// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/gobuild"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

func TestMain(m *testing.M) { nstest.Main(m) }

const waitTimeout = 30 * time.Second

// rig is a node with an agent, and the state that a runtime needs to call the plugin.
type rig struct {
	t      *testing.T
	node   *netns.NS
	dir    string // of binaries, configurations and the agent's files
	client *api.Client
	agent  *exec.Cmd
	args   [][2]string // of the runtime, about the container
	role   string      // label of the containers
	// network is their label "network".
	network string
	timeout string // of the configuration, default 20s
}

// programs builds the plugin and the agent, as a user would, and returns the binaries by name. It
// builds them once: linking them takes seconds.
var programs = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "wayleave-cni")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // A directory that stays does no harm.
	binaries := map[string][]byte{}
	for name, path := range map[string]string{
		"wayleave": "github.com/wayleave/wayleave/examples/cni", "agent": "github.com/wayleave/wayleave/examples/agent",
	} {
		if err := gobuild.Build(filepath.Join(dir, name), path); err != nil {
			return nil, err
		}
		if binaries[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return binaries, nil
})

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, node: nstest.New(t), dir: t.TempDir()}
	binaries, err := programs()
	require.NoError(t, err)
	for name, data := range binaries {
		require.NoError(t, os.WriteFile(r.path(name), data, 0o700))
	}
	require.NoError(t, os.Mkdir(r.path("manifests"), 0o700))
	r.client = api.NewClient(r.path("agent.sock"))
	r.configure("1.0.0")
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

// configure writes the network's configuration.
func (r *rig) configure(version string) {
	r.t.Helper()
	config := fmt.Sprintf(`{"cniVersion": %q, "name": "net", "plugins": [{
		"type": "wayleave", "socket": %q, "endpointDir": %q,
		"capabilities": {"ips": true}, "labels": {"network": %q, "role": %q}, "timeout": %q}]}`, version,
		r.path("agent.sock"), r.path("endpoints"), cmp.Or(r.network, "net"), r.role, cmp.Or(r.timeout, "20s"))
	require.NoError(r.t, os.WriteFile(r.path("net.conflist"), []byte(config), 0o600))
}

// startAgent runs the agent until the test ends or stopAgent is called, and waits until it is
// ready.
func (r *rig) startAgent(more ...string) {
	r.t.Helper()
	r.agent = exec.Command(r.path("agent"), append([]string{
		"run", "--node", "n", "--manifests", r.path("manifests"), "--socket", r.path("agent.sock"),
		"--endpoint-dir", r.path("endpoints"), "--http-address", "", "--forward-ipv6",
	}, more...)...)
	var log bytes.Buffer
	r.agent.Stderr = &log
	require.NoError(r.t, r.node.Do(r.agent.Start)) // a process that is started on a thread of the namespace is in it
	agent := r.agent
	r.t.Cleanup(func() {
		if agent.ProcessState == nil {
			_ = agent.Process.Kill()
			_ = agent.Wait()
		}
		if r.t.Failed() {
			r.t.Logf("the agent's log:\n%s", log.String())
		}
	})
	// It polls: no event reports that the agent has a socket or is ready.
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(waitTimeout); ; <-ticker.C {
		status, err := api.Get[api.Status](r.t.Context(), r.client, "/v1/status")
		if err == nil && status.Ready {
			return
		}
		require.False(r.t, time.Now().After(deadline), "the agent is not ready: %v %+v", err, status)
	}
}

func (r *rig) stopAgent() {
	r.t.Helper()
	require.NoError(r.t, r.agent.Process.Signal(os.Interrupt))
	require.NoError(r.t, r.agent.Wait())
}

// runtime calls the plugin on the node by the reference library of runtimes, and returns the result
// of ADD, or the error, as text. The library's own directory, /var/lib/cni, is for root alone, so
// it gets another one.
func (r *rig) runtime(command string, container *netns.NS, ip string) (string, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*waitTimeout)
	defer cancel()
	network, err := libcni.LoadNetworkConf(r.dir, "net")
	require.NoError(r.t, err)
	c := libcni.NewCNIConfigWithCacheDir([]string{r.dir}, r.path("cache"), nil)
	config := &libcni.RuntimeConf{
		ContainerID: fmt.Sprintf("container-%d", container.FD()), IfName: "eth0",
		NetNS: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), container.FD()),
		Args:  r.args, CapabilityArgs: map[string]any{"ips": []string{ip}},
	}
	var result types.Result
	err = r.node.Do(func() (err error) { // a process that is started on a thread of the namespace is in it
		switch command {
		case "add":
			result, err = c.AddNetworkList(ctx, network, config)
		case "check":
			err = c.CheckNetworkList(ctx, network, config)
		case "del":
			err = c.DelNetworkList(ctx, network, config)
		case "status":
			err = c.GetStatusNetworkList(ctx, network)
		default:
			err = fmt.Errorf("no command %q", command)
		}
		return err
	})
	if err != nil {
		return err.Error(), err
	}
	if result == nil {
		return "", nil
	}
	text, err := json.Marshal(result)
	return string(text), err
}

// must calls the runtime, and requires that the call succeeds.
func (r *rig) must(command string, container *netns.NS, ip string) string {
	r.t.Helper()
	out, err := r.runtime(command, container, ip)
	require.NoError(r.t, err, out)
	return out
}

// reaches reports whether one container can connect to a port of another.
func (r *rig) reaches(from, to *netns.NS, address string) bool {
	r.t.Helper()
	var listener net.Listener
	require.NoError(r.t, to.Do(func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	}))
	defer func() { require.NoError(r.t, listener.Close()) }()
	err := from.Do(func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return err == nil
}

// allow80 lets the containers of the network reach each other on port 80.
const allow80 = `apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: default.web}
spec:
  selector: network == 'net'
  types: [Ingress, Egress]
  ingress: [{action: Allow, protocol: TCP, source: {selector: network == 'net'}, destination: {ports: [80]}}]
  egress: [{action: Allow}]
`

func TestAddCheckAndDelete(t *testing.T) {
	r := newRig(t)
	require.NoError(t, os.WriteFile(r.path("manifests/policy.yaml"), []byte(allow80), 0o600))
	one, two := nstest.New(t), nstest.New(t)

	// Without an agent, ADD fails and removes the interfaces that it made.
	out, err := r.runtime("add", one, "10.0.0.1/32")
	require.Error(t, err)
	require.Contains(t, out, "no agent is running there")
	require.Contains(t, out, "set socket in the network configuration, which is "+r.path("agent.sock"))
	require.NotContains(t, out, "--socket", "the plugin has no flags")
	_, err = one.Link("eth0")
	require.Error(t, err)
	r.must("del", one, "")

	r.startAgent()
	out = r.must("add", one, "10.0.0.1/32")
	var result current.Result
	require.NoError(t, json.Unmarshal([]byte(out), &result), out)
	require.Len(t, result.Interfaces, 2)
	require.Equal(t, "eth0", result.Interfaces[1].Name)
	require.True(t, strings.HasPrefix(result.Interfaces[0].Name, "way"))
	require.Equal(t, "10.0.0.1/32", result.IPs[0].Address.String())
	// The container is programmed when ADD returns.
	endpoints, err := api.Get[[]api.Endpoint](t.Context(), r.client, "/v1/endpoints")
	require.NoError(t, err)
	require.Len(t, endpoints, 1)
	require.Equal(t, "up", endpoints[0].State)
	require.NotEmpty(t, endpoints[0].Ingress)

	r.must("add", two, "10.0.0.2/32")
	require.True(t, r.reaches(one, two, "10.0.0.2:80"))
	require.False(t, r.reaches(one, two, "10.0.0.2:81"))
	r.must("check", one, "")

	// A restart of the agent changes nothing for the containers.
	r.stopAgent()
	require.True(t, r.reaches(two, one, "10.0.0.1:80"), "the kernel state stays")
	r.startAgent()
	r.must("check", one, "")
	require.True(t, r.reaches(two, one, "10.0.0.1:80"))
	require.False(t, r.reaches(two, one, "10.0.0.1:81"))

	// CHECK detects changes.
	require.NoError(t, two.Down("eth0"))
	require.NoError(t, two.DeleteLink("eth0"))
	out, err = r.runtime("check", two, "")
	require.Error(t, err, out)
	for _, container := range []*netns.NS{one, two} {
		r.must("del", container, "")
		r.must("del", container, "") // DEL may be repeated
	}
	endpoints, err = api.Get[[]api.Endpoint](t.Context(), r.client, "/v1/endpoints")
	require.NoError(t, err)
	require.Empty(t, endpoints)
	out, err = r.runtime("check", one, "")
	require.Error(t, err, out)
	r.stopAgent()
}

// STATUS came with version 1.1 of the specification.
func TestStatus(t *testing.T) {
	r := newRig(t)
	r.configure("1.1.0")
	container := nstest.New(t)
	out, err := r.runtime("status", container, "")
	require.Error(t, err)
	require.Contains(t, out, "the agent does not answer")
	r.startAgent()
	r.must("status", container, "")
	r.must("add", container, "2001:db8::1/128")
	r.must("check", container, "")
	r.must("del", container, "")
	r.stopAgent()
}

// Addresses may come from an ipam plugin. DEL releases them, and so does an ADD that fails.
func TestAddressesOfAnIPAMPlugin(t *testing.T) {
	r := newRig(t)
	script := fmt.Sprintf(`#!/bin/sh
echo $CNI_COMMAND >>%s
[ $CNI_COMMAND != ADD ] || echo '{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.7/24"},{"address":"2001:db8::7/64"}]}'
`, r.path("calls"))
	require.NoError(t, os.WriteFile(r.path("fixed"), []byte(script), 0o700))
	config := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "wayleave", "socket": %q,
		"ipam": {"type": "fixed"}, "mtu": 1400, "timeout": "20s"}]}`, r.path("agent.sock"))
	require.NoError(t, os.WriteFile(r.path("net.conflist"), []byte(config), 0o600))
	container := nstest.New(t)
	r.startAgent()
	out := r.must("add", container, "")
	require.Contains(t, out, `"10.0.0.7/32"`)
	require.Contains(t, out, `"2001:db8::7/128"`)
	r.must("check", container, "")
	r.must("del", container, "")

	require.NoError(t, os.RemoveAll(r.path("endpoints"))) // the agent can register nothing now
	out, err := r.runtime("add", container, "")
	require.Error(t, err)
	require.Contains(t, out, "the agent has not programmed the container")
	_, err = container.Link("eth0")
	require.Error(t, err, "the interface is removed")
	calls, err := os.ReadFile(r.path("calls"))
	require.NoError(t, err)
	require.Equal(t, "ADD\nCHECK\nDEL\nADD\nDEL\n", string(calls))
	r.stopAgent()
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		`{`: "is invalid",
		`{"cniVersion":"1.0.0","timeout":"soon"}`: "timeout",
		`{"cniVersion":"1.0.0","timeout":"-1s"}`:  "timeout",
	} {
		_, err := parse([]byte(text))
		require.ErrorContains(t, err, want)
	}
	c, err := parse([]byte(`{"runtimeConfig":{"ips":["10.0.0.1/24","2001:db8::1"]}}`))
	require.NoError(t, err)
	addrs, err := c.runtimeAddresses()
	require.NoError(t, err)
	require.Equal(t, "[10.0.0.1 2001:db8::1]", fmt.Sprint(addrs))
	c.RuntimeConfig.IPs = []string{"x"}
	_, err = c.runtimeAddresses()
	require.ErrorContains(t, err, `"x" is not an address`)

	// The endpoint of a pod has the key and the interface that convert makes from its manifest.
	k, err := c.identify(&skel.CmdArgs{
		ContainerID: "id", Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=x",
	})
	require.NoError(t, err)
	require.Equal(t, policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}, k.Key)
	require.Equal(t, "pod-uid=x", k.parameters(url.Values{}).Encode())
	require.Equal(t, convert.InterfaceName("shop", "web"), c.hostInterface(k))
	k, err = c.identify(&skel.CmdArgs{ContainerID: "id"})
	require.NoError(t, err)
	require.Equal(t, "cni/id", k.Namespace+"/"+k.Name)
	require.Empty(t, k.parameters(url.Values{}), "the container is not a pod")
}
