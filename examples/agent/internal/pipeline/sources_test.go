// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// startSources runs a pipeline with other sources beside the manifests.
func startSources(t *testing.T, change func(*pipeline.Config)) (*pipeline.Pipeline, *running) {
	t.Helper()
	r := &running{log: &log{}, states: make(chan pipeline.State, 1000), ended: make(chan error, 1)}
	r.config = pipeline.Config{
		Node: "n", NetNS: nstest.New(t).FD(), Programmed: func(s pipeline.State) { r.states <- s },
	}
	change(&r.config)
	p, err := pipeline.New(r.config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	t.Cleanup(cancel)
	go func() { r.ended <- p.Run(ctx) }()
	return p, r
}

func endpoint(iface, ip string) *policy.WorkloadEndpoint {
	return &policy.WorkloadEndpoint{
		Namespace: "shop", Name: "web", Node: "n", Interface: iface, Addresses: []netip.Addr{netip.MustParseAddr(ip)},
	}
}

// If several sources have an object, the version of the first source is used. When that source
// removes the object, the version of the next source is used.
func TestFirstSourceTakesPrecedence(t *testing.T) {
	dir, resources := t.TempDir(), t.TempDir()
	memory := &datastore.Memory{}
	later := endpoint("way-m", "10.0.0.3")
	require.NoError(t, memory.Update(t.Context(), []policy.Update{{Key: later.Key(), Resource: later}}))
	data, err := policy.Encode(endpoint("way-r", "10.0.0.2"))
	require.NoError(t, err)
	write(t, resources, "web.json", string(data))
	write(t, dir, "a.yaml", namespace+"---"+pod("web", "10.0.0.1"))
	rejected := make(chan error, 100)
	p, r := startSources(t, func(c *pipeline.Config) {
		c.Manifests, c.Resources = dir, resources
		c.Sources = []datastore.NamedSource{{Name: "memory", Source: memory}}
		c.Rejected = func(err error) { rejected <- err }
	})
	has := func(iface string) func(pipeline.State) bool {
		return func(s pipeline.State) bool {
			return s.Table() != nil && strings.Contains(s.Table().String(), `"`+iface+`"`)
		}
	}
	r.until(t, has(convert.InterfaceName("shop", "web")))
	require.Empty(t, p.Waiting())
	require.Equal(t, len(p.World()), p.Objects())
	require.Len(t, rejected, 3, "in any order of the sources' updates")
	require.ErrorContains(t, <-rejected, "WorkloadEndpoint/shop/web is in ")
	key := later.Key()
	require.Equal(t, "10.0.0.2",
		p.WorldWith(nil, pipeline.SourceManifests)[key].(*policy.WorkloadEndpoint).Addresses[0].String())
	require.Equal(t, "10.0.0.3", p.WorldWith(nil, pipeline.SourceManifests,
		pipeline.SourceResources)[key].(*policy.WorkloadEndpoint).Addresses[0].String())
	require.NoError(t, os.Remove(filepath.Join(dir, "a.yaml")))
	r.until(t, has("way-r"))
	require.NoError(t, os.Remove(filepath.Join(resources, "web.json")))
	r.until(t, has("way-m"))
	require.NoError(t, memory.Update(t.Context(), []policy.Update{{Key: key}}))
	r.until(t, func(s pipeline.State) bool { return s.Table() != nil && !has("way-m")(s) })
	r.end(t)
}

// Nothing is programmed before all sources are in sync. A source that fails ends the pipeline.
func TestNothingIsProgrammedBeforeSourcesAreInSync(t *testing.T) {
	slow, broken := make(source), make(source)
	p, r := startSources(t, func(c *pipeline.Config) {
		c.Manifests = t.TempDir()
		c.Sources = []datastore.NamedSource{{Name: "slow", Source: slow}, {Name: "broken", Source: broken}}
	})
	require.Contains(t, p.Waiting(), "slow")
	cause := errors.New("the database is gone")
	broken <- cause
	require.ErrorIs(t, <-r.ended, cause)
	require.Contains(t, p.Waiting(), "slow")
}

// Settings of the agent among the manifests are not an error.
func TestLoad(t *testing.T) {
	dir, resources := t.TempDir(), t.TempDir()
	write(t, dir, "a.yaml", "apiVersion: wayleave.dev/v1\nkind: AgentConfig\nmetadata: {name: default}\n"+
		"spec: {}\n---\n"+namespace)
	data, err := policy.Encode(endpoint("way-r", "10.0.0.2"))
	require.NoError(t, err)
	write(t, resources, "web.json", string(data))
	write(t, resources, "broken.json", "{")
	world, rejected := pipeline.Load(pipeline.Config{Manifests: dir, Resources: resources})
	require.Len(t, world, 2)
	require.Len(t, rejected, 1)
	require.ErrorContains(t, rejected[0], "broken.json")
}

// source sends nothing, until it fails with the error that it receives.
type source chan error

func (s source) Run(ctx context.Context, _ datastore.Receiver) error {
	select {
	case err := <-s:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// updates is a source that sends the updates that it receives.
type updates chan []policy.Update

func (s updates) Run(ctx context.Context, r datastore.Receiver) error {
	if err := r.InSync(ctx); err != nil {
		return err
	}
	for {
		select {
		case list := <-s:
			if err := r.Update(ctx, list); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// The agent has all fields of an endpoint of another node, but no part of the agent keeps the
// endpoint unpacked. This holds for the sources, the graph, the recording and the dataplanes.
func TestEndpointsOfOtherNodesStayPacked(t *testing.T) {
	source := make(updates)
	p, r := startSources(t, func(c *pipeline.Config) {
		c.Sources = []datastore.NamedSource{{Name: "updates", Source: source}}
		c.Record = io.Discard
	})
	remote := func(role string) *policy.WorkloadEndpoint {
		e := endpoint("way-r", "10.0.0.2")
		e.Name, e.Node, e.Labels = "remote", "other", map[string]string{"role": role}
		e.Ports = []policy.EndpointPort{{Name: "http", Protocol: policy.ProtocolTCP, Port: 80}}
		return e
	}
	send := func(r policy.Resource) { source <- []policy.Update{{Key: r.Key(), Resource: r}} }
	sendRemote := func(role string) weak.Pointer[policy.WorkloadEndpoint] {
		e := remote(role)
		send(e)
		return weak.Make(e)
	}
	send(&policy.Policy{
		Name: "p", Selector: "all()",
		Ingress: []policy.Rule{{Action: policy.Allow, Source: policy.EntityRule{Selector: "role == 'client'"}}},
	})
	send(endpoint("way-l", "10.0.0.1"))
	for _, role := range []string{"client", "client", "server"} {
		given := sendRemote(role)
		send(&policy.Profile{Name: "after"}) // after this update, the endpoint has been processed
		require.NoError(t, p.WaitApplied(t.Context()))
		require.Equal(t, remote(role), p.World()[remote(role).Key()])
		for deadline := time.Now().Add(time.Minute); given.Value() != nil; runtime.GC() {
			require.False(t, time.Now().After(deadline), "a part of the agent keeps the endpoint unpacked")
		}
	}
	require.Equal(t, 4, p.Objects())
	send(remote("client"))
	source <- []policy.Update{{Key: remote("").Key()}}
	source <- nil
	require.Equal(t, 3, p.Objects())
	require.NotContains(t, p.World(), remote("").Key())
	r.end(t)
}
