// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/registry"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// stateOf returns the state of an endpoint and its error, from /v1/endpoints.
func (r *running) stateOf(t *testing.T, name string) string {
	t.Helper()
	for _, e := range get[[]api.Endpoint](t, r, "/v1/endpoints") {
		if e.Key.Name == name {
			return strings.TrimSuffix(e.State+": "+e.Error, ": ")
		}
	}
	return "absent"
}

// untilStates waits until endpoints have these states.
func (r *running) untilStates(t *testing.T, want map[string]string) {
	t.Helper()
	r.until(t, func(s pipeline.State) bool {
		for name, state := range want {
			if r.stateOf(t, name) != state {
				return false
			}
		}
		return s.InSync
	})
}

// registeredBody returns a registration of an endpoint in namespace shop.
func registeredBody(name, iface, address string) string {
	return fmt.Sprintf(`{"namespace":"shop","name":%q,"interface":%q,"addresses":[%q]}`, name, iface, address)
}

// belongsTo returns the error of an endpoint whose interface belongs to another one.
func belongsTo(iface, owner string) string {
	return fmt.Sprintf("interface %q belongs to endpoint %s: remove that endpoint first", iface, owner)
}

// announced is a source that sends one endpoint. It is in sync when its channel is closed.
type announced struct {
	late
	endpoint *policy.WorkloadEndpoint
}

func (a announced) Run(ctx context.Context, r datastore.Receiver) error {
	select {
	case <-a.late:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := r.Update(ctx, []policy.Update{{Key: a.endpoint.Key(), Resource: a.endpoint}}); err != nil {
		return err
	}
	return a.late.Run(ctx, r)
}

// Until all sources have been read, nothing is registered: the interface may be another endpoint's.
// The request ends after its timeout, with the name of the source that was not read.
func TestRegisterWaitsForSources(t *testing.T) {
	node := nstest.New(t)
	nstest.NewWorkload(t, node, "way0", "10.0.0.9")
	nstest.NewWorkload(t, node, "way1", "10.0.0.8")
	source := announced{make(late), &policy.WorkloadEndpoint{
		Namespace: "shop", Name: "owner", Node: "n", Interface: "way0",
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9")},
	}}
	r := startWaiting(t, node, t.TempDir(), t.TempDir(), source)
	taken, free := registeredBody("new", "way0", "10.0.0.7"), registeredBody("free", "way1", "10.0.0.8")
	for _, body := range []string{taken, free} {
		require.ErrorContains(t, r.put(t, "timeout=50ms", body), "not read completely: late")
	}
	require.Empty(t, get[[]api.Endpoint](t, r, "/v1/endpoints"))
	waits := make(chan error, 2)
	for _, body := range []string{taken, free} {
		go func() {
			_, err := api.Send[api.Registered](t.Context(), r.Client, "PUT", "/v1/registry?timeout=20s", jsonText(body))
			waits <- err
		}()
	}
	close(source.late)
	errs := []error{<-waits, <-waits}
	if errs[0] == nil {
		errs[0], errs[1] = errs[1], errs[0]
	}
	require.ErrorContains(t, errs[0], belongsTo("way0", "WorkloadEndpoint/shop/owner"))
	require.NoError(t, errs[1])
	require.Equal(t, "up", r.stateOf(t, "owner"))
	require.Equal(t, "up", r.stateOf(t, "free"))
	require.Equal(t, "absent", r.stateOf(t, "new"))
	r.end(t)
}

// An endpoint of another source that appears on the interface of a registered endpoint gets the
// interface. The registered one is absent, with the reason in its status, until the other one is
// removed. A restart changes nothing.
func TestRegisteredEndpointYieldsItsInterface(t *testing.T) {
	node, dir := shop(t)
	iface := convert.InterfaceName("shop", "late")
	nstest.NewWorkload(t, node, iface, "10.0.0.9", "2001:db8::9")
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	require.NoError(t, r.put(t, "timeout=20s", registeredBody("first", iface, "10.0.0.9")))
	rejected := "failed: " + belongsTo(iface, "WorkloadEndpoint/shop/late")
	for range 2 {
		write(t, dir, "late.yaml", pod("late", "10.0.0.9"))
		r.untilStates(t, map[string]string{"late": "up", "web": "up", "first": rejected})
		status := get[api.Status](t, r, "/v1/status")
		require.Equal(t, map[string]int{"up": 3, "failed": 1}, status.Endpoints)
		require.Empty(t, status.LastError, "no endpoint is at fault in the kernel")
		registration := get[api.Registered](t, r, "/v1/registry?namespace=shop&name=first")
		require.Equal(t, rejected, registration.State+": "+registration.Error)
		r.log.await(t, `"rejected, so absent" object=WorkloadEndpoint/shop/first`)
		require.ErrorContains(t, r.put(t, "timeout=20s", registeredBody("first", iface, "10.0.0.9")), rejected[8:],
			"it cannot be registered again")
		_, metrics := r.http(t, "/metrics")
		require.Contains(t, metrics, `wayleave_endpoints{state="failed"} 1`)

		r.end(t) // the file of the registration stays
		r = start(t, node, dir, r.state)
		r.untilStates(t, map[string]string{"late": "up", "web": "up", "first": rejected})

		require.NoError(t, os.Remove(filepath.Join(dir, "late.yaml")))
		r.untilStates(t, map[string]string{"web": "up", "first": "up", "late": "absent"})
	}
	_, err := r.forget(t, "name=first&timeout=20s")
	require.NoError(t, err)
	r.end(t)
}

// A registration that an earlier agent stored for the interface of another endpoint does not
// interrupt that endpoint: its connections continue, and new ones begin.
func TestStoredRegistrationDoesNotInterruptOwner(t *testing.T) {
	node, dir, state := nstest.New(t), t.TempDir(), t.TempDir()
	iface := convert.InterfaceName("shop", "web")
	web := nstest.NewWorkload(t, node, iface, "10.0.0.1", "2001:db8::1")
	cart := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "cart"), "10.0.0.2", "2001:db8::2")
	pods := pod("web", "10.0.0.1") + pod("cart", "10.0.0.2")
	for ip4, ip6 := range map[string]string{"10.0.0.1": "2001:db8::1", "10.0.0.2": "2001:db8::2"} {
		pods = strings.ReplaceAll(pods, strconv.Quote(ip4), fmt.Sprintf("%q}, {ip: %q", ip4, ip6))
	}
	write(t, dir, "pods.yaml", namespace+pods)
	write(t, dir, "policy.yaml", allow("cart", "web", 80))
	r := start(t, node, dir, state)
	r.until(t, well)
	addresses := []string{"10.0.0.1:80", "[2001:db8::1]:80"}
	var conns []net.Conn
	for _, address := range addresses {
		conns = append(conns, connect(t, cart.NS, web.NS, address))
	}
	r.end(t)

	stored, problems, err := registry.Open(filepath.Join(state, "endpoints"))
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, stored.Put(t.Context(), &policy.WorkloadEndpoint{
		Namespace: "shop", Name: "stored", Node: "n", Interface: iface,
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.7")},
	}))
	r = start(t, node, dir, state)
	packets := 0
	r.until(t, func(s pipeline.State) bool { // packets are sent during the start, too
		for _, conn := range conns {
			require.True(t, answered(conn, waitTimeout))
			packets++
		}
		return s.InSync
	})
	require.Equal(t, "failed: "+belongsTo(iface, "WorkloadEndpoint/shop/web"), r.stateOf(t, "stored"))
	for i, address := range addresses {
		require.True(t, answered(conns[i], waitTimeout))
		require.True(t, answered(connect(t, cart.NS, web.NS, address), waitTimeout))
	}
	t.Logf("1 change, %d packets answered", packets+2*len(addresses))
	r.end(t)
}

// A registration that waits for the kernel ends when another endpoint gets the interface: it has no
// timeout of its own.
func TestRegisterEndsWhenInterfaceIsTaken(t *testing.T) {
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	iface := convert.InterfaceName("shop", "late") // which does not exist, so the endpoint fails
	failed := make(chan error, 1)
	go func() { failed <- r.put(t, "", registeredBody("first", iface, "10.0.0.9")) }()
	r.until(t, func(pipeline.State) bool { return strings.Contains(r.stateOf(t, "first"), "no such interface") })
	write(t, dir, "late.yaml", pod("late", "10.0.0.9"))
	select {
	case err := <-failed:
		require.ErrorContains(t, err, belongsTo(iface, "WorkloadEndpoint/shop/late"))
	case <-time.After(waitTimeout):
		require.Fail(t, "the registration does not end")
	}
	nstest.NewWorkload(t, node, iface, "10.0.0.9")
	r.end(t)
}

// A registered endpoint that is absent can be removed. Then no other endpoint waits for its
// address.
func TestRejectedRegistrationCanBeRemoved(t *testing.T) {
	node, dir := shop(t)
	iface := convert.InterfaceName("shop", "late")
	nstest.NewWorkload(t, node, iface, "10.0.0.9")
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	require.NoError(t, r.put(t, "timeout=20s", registeredBody("first", iface, "10.0.0.9")))
	write(t, dir, "late.yaml", pod("late", "10.0.0.9"))
	rejected := "failed: " + belongsTo(iface, "WorkloadEndpoint/shop/late")
	r.untilStates(t, map[string]string{"late": "up", "first": rejected})
	_, err := r.forget(t, "name=first&timeout=20s")
	require.NoError(t, err)
	require.Equal(t, "absent", r.stateOf(t, "first"))
	nstest.NewWorkload(t, node, "way1", "10.0.0.8")
	require.NoError(t, r.put(t, "timeout=20s", registeredBody("second", "way1", "10.0.0.8")))
	r.end(t)
}

// hostManifest returns the manifest of a host endpoint of node n.
func hostManifest(spec string) string {
	return "apiVersion: projectcalico.org/v3\nkind: HostEndpoint\nmetadata: {name: uplink}\n" +
		"spec: {node: n, " + spec + "}\n"
}

// The interface of a host endpoint cannot be registered, whether the host endpoint names it or
// expects one of its addresses. A host endpoint for all interfaces does not govern those of
// workloads, so it leaves other interfaces free (S108).
func TestRegisterRefusesInterfaceOfHost(t *testing.T) {
	for spec, want := range map[string]string{
		"interfaceName: way1":                                belongsTo("way1", "HostEndpoint/uplink"),
		"expectedIPs: [192.0.2.1]":                           "; it has the address 192.0.2.1",
		"expectedIPs: ['2001:db8:1::1']":                     "; it has the address 2001:db8:1::1",
		"interfaceName: '*', expectedIPs: ['2001:db8:1::1']": "; it has the address 2001:db8:1::1",
		"expectedIPs: [192.0.2.2]":                           "",
		"interfaceName: '*'":                                 "",
	} {
		t.Run(spec, func(t *testing.T) {
			node, dir := shop(t)
			nstest.NewWorkload(t, node, "way0", "10.0.0.9")
			nstest.NewWorkload(t, node, "way1", "10.0.0.8")
			require.NoError(t, node.AddAddr("way1", netip.MustParsePrefix("192.0.2.1/24")))
			require.NoError(t, node.AddAddr("way1", netip.MustParsePrefix("2001:db8:1::1/64")))
			write(t, dir, "host.yaml", hostManifest(spec))
			r := start(t, node, dir, t.TempDir())
			r.until(t, well)
			require.NoError(t, r.put(t, "timeout=20s", registeredBody("pod", "way0", "10.0.0.9")),
				"an interface that the host does not have")
			err := r.put(t, "timeout=20s", registeredBody("new", "way1", "10.0.0.8"))
			if want == "" {
				require.NoError(t, err)
				require.Equal(t, "up", r.stateOf(t, "new"))
			} else {
				require.ErrorContains(t, err, want)
				require.Equal(t, "absent", r.stateOf(t, "new"))
			}
			require.Equal(t, "up", r.stateOf(t, "pod"))
			r.end(t)
		})
	}
}

// A host endpoint that appears later gets its interface too, whether it names the interface or
// expects its address.
func TestRegisteredEndpointYieldsToHostEndpoint(t *testing.T) {
	for _, spec := range []string{"interfaceName: way1", "expectedIPs: [192.0.2.1]"} {
		t.Run(spec, func(t *testing.T) {
			node, dir := shop(t)
			nstest.NewWorkload(t, node, "way1", "10.0.0.8")
			require.NoError(t, node.AddAddr("way1", netip.MustParsePrefix("192.0.2.1/24")))
			r := start(t, node, dir, t.TempDir())
			r.until(t, well)
			require.NoError(t, r.put(t, "timeout=20s", registeredBody("new", "way1", "10.0.0.8")))
			write(t, dir, "host.yaml", hostManifest(spec))
			r.until(t, func(pipeline.State) bool {
				return r.stateOf(t, "uplink") == "up" && strings.Contains(r.stateOf(t, "new"), "HostEndpoint/uplink")
			})
			require.NoError(t, os.Remove(filepath.Join(dir, "host.yaml")))
			r.untilStates(t, map[string]string{"new": "up", "uplink": "absent"})
			r.end(t)
		})
	}
}

// A source that becomes unreadable does not delay registrations, even if the pipeline is restarted:
// its last known objects keep their interfaces.
func TestRegisterWhileDirectoryIsUnreadable(t *testing.T) {
	r, reread := rereadable(t)
	require.NoError(t, os.Rename(r.dir, r.dir+".away"))
	nstest.NewWorkload(t, r.node, "way0", "10.0.0.9")
	reread("apply-burst", map[string]string{"apply-burst": "7"})
	r.until(t, func(s pipeline.State) bool {
		return well(s) && s.InSync && get[api.Status](t, r, "/v1/status").Restarts == 1
	})
	require.NoError(t, r.put(t, "timeout=20s", registeredBody("new", "way0", "10.0.0.9")))
	web := convert.InterfaceName("shop", "web")
	require.ErrorContains(t, r.put(t, "timeout=20s", registeredBody("other", web, "10.0.0.7")),
		belongsTo(web, "WorkloadEndpoint/shop/web"))
	r.end(t)
}
