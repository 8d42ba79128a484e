// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/daemon"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

func TestMain(m *testing.M) { nstest.Main(m) }

const waitTimeout = 20 * time.Second

// pod returns the manifest of a pod of node n.
func pod(name, ip string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: %s, labels: {app: %s}}
spec: {nodeName: n, containers: [{name: c}]}
status: {podIPs: [{ip: %q}]}
`, name, name, ip)
}

// allow returns a policy that allows only one app to reach another, on one port.
func allow(from, to string, port int) string {
	return fmt.Sprintf(`---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: to-%s}
spec:
  podSelector: {matchLabels: {app: %s}}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {matchLabels: {app: %s}}}], ports: [{port: %d}]}]
`, to, to, from, port)
}

const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	half := filepath.Join(dir, "."+name)
	require.NoError(t, os.WriteFile(half, []byte(content), 0o600))
	require.NoError(t, os.Rename(half, filepath.Join(dir, name)))
}

// log has the text that was logged.
type log struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{} // holds a value after a write
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.written <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

// await waits until a text is in the log. It is for one goroutine.
func (l *log) await(t testing.TB, text string) {
	t.Helper()
	for timeout := time.After(waitTimeout); !strings.Contains(l.String(), text); {
		select {
		case <-l.written:
		case <-timeout:
			t.Fatalf("%q is not in the log:\n%s", text, l)
		}
	}
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running is a running agent on a node of the test.
type running struct {
	*api.Client
	dir, state string
	log        *log
	node       *netns.NS
	states     chan pipeline.State
	stop       context.CancelFunc
	ended      chan error
}

// start runs an agent on a node. dir has the manifests, and state has the files that the agent
// keeps over a restart. change can change its configuration.
func start(t testing.TB, node *netns.NS, dir, state string, change ...func(*daemon.Config)) *running {
	t.Helper()
	return startWith(t, node, dir, state, nil, change...)
}

// startWith is start with more settings.
func startWith(
	t testing.TB, node *netns.NS, dir, state string, more map[string]string, change ...func(*daemon.Config),
) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{
		dir: dir, state: state, log: &log{written: make(chan struct{}, 1)}, node: node,
		states: make(chan pipeline.State, 10000), stop: cancel, ended: make(chan error, 1),
	}
	socket := filepath.Join(state, "agent.sock")
	r.Client = api.NewClient(socket)
	cfg := daemon.Config{
		NetNS: node.FD(), Log: r.log, Programmed: func(s pipeline.State) { r.states <- s },
		Below: []settings.Layer{{Source: "test", Values: map[string]string{
			"node": "n", "manifests": dir, "endpoint-dir": filepath.Join(state, "endpoints"), "socket": socket,
			"http-address": "127.0.0.1:0", "forward-ipv6": "true",
		}}, {Source: "more of the test", Values: more}},
	}
	for _, do := range change {
		do(&cfg)
	}
	// The agent runs in the node's namespace, so that it listens there. If an ordinary user runs
	// the test, the namespace of the process has no loopback.
	go func() { r.ended <- node.Do(func() error { return daemon.Run(ctx, cfg) }) }()
	t.Cleanup(cancel)
	return r
}

// until waits for a state for which holds reports true.
func (r *running) until(t testing.TB, holds func(pipeline.State) bool) {
	t.Helper()
	timeout := time.After(waitTimeout)
	for {
		select {
		case s := <-r.states:
			if holds(s) {
				return
			}
		case err := <-r.ended:
			t.Fatalf("ended: %v\n%s", err, r.log)
		case <-timeout:
			t.Fatalf("no such state; log:\n%s", r.log)
		}
	}
}

// well reports whether a state has a table and no fault.
func well(s pipeline.State) bool { return s.Err == nil && s.Table() != nil }

// end stops the agent, and requires that it ends without an error.
func (r *running) end(t testing.TB) {
	t.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		require.NoError(t, err)
	case <-time.After(waitTimeout):
		t.Fatal("does not end")
	}
}

// http requests a page of the public server.
func (r *running) http(t testing.TB, path string) (int, string) {
	t.Helper()
	address := regexp.MustCompile(`serving health and metrics" address=(\S+)`).FindStringSubmatch(r.log.String())
	require.Len(t, address, 2, r.log)
	dial := func(_ context.Context, _, to string) (conn net.Conn, err error) {
		err = r.node.Do(func() error {
			conn, err = net.Dial("tcp", to)
			return err
		})
		return conn, err
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Get("http://" + address[1] + path)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, string(body)
}

func get[T any](t *testing.T, r *running, path string) T {
	t.Helper()
	value, err := api.Get[T](t.Context(), r.Client, path)
	require.NoError(t, err)
	return value
}

// shop makes a node with two pods and a policy.
func shop(t *testing.T) (node *netns.NS, dir string) {
	t.Helper()
	node, dir = nstest.New(t), t.TempDir()
	for name, ip := range map[string]string{"web": "10.0.0.1", "cart": "10.0.0.2"} {
		nstest.NewWorkload(t, node, convert.InterfaceName("shop", name), ip)
	}
	write(t, dir, "pods.yaml", namespace+pod("web", "10.0.0.1")+pod("cart", "10.0.0.2"))
	write(t, dir, "policy.yaml", allow("cart", "web", 80))
	return node, dir
}

func TestSocketRequests(t *testing.T) {
	node, dir := shop(t)
	write(t, dir, "broken.yaml", "kind: [")
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)

	status := get[api.Status](t, r, "/v1/status")
	require.True(t, status.Ready, r.log)
	require.Equal(t, "n", status.Node)
	require.Equal(t, map[string]int{"up": 2}, status.Endpoints)
	require.Equal(t, uint64(1), status.Rejected)
	require.Empty(t, status.Waiting)
	code, body := r.http(t, "/readyz")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"name":"driver","ok":true`)
	code, _ = r.http(t, "/livez")
	require.Equal(t, 200, code)
	_, body = r.http(t, "/metrics")
	require.Contains(t, body, "wayleave_ready 1\n")
	require.Contains(t, body, "wayleave_endpoints{state=\"up\"} 2\n")

	endpoints := get[[]api.Endpoint](t, r, "/v1/endpoints")
	require.Len(t, endpoints, 2)
	require.Equal(t, "shop/web", endpoints[1].Key.Namespace+"/"+endpoints[1].Key.Name)
	require.Equal(t, "up", endpoints[1].State)
	require.Equal(t, []string{"10.0.0.1"}, endpoints[1].Addresses)
	require.Equal(t, []string{"default: Policy/shop/knp.default.to-web"}, endpoints[1].Ingress)
	policies := get[[]api.Policy](t, r, "/v1/policies")
	require.Len(t, policies, 1)
	require.Equal(t, 1, policies[0].Endpoints)
	sets := get[[]api.Set](t, r, "/v1/sets?members=true")
	require.Len(t, sets, 1)
	require.Equal(t, []string{"10.0.0.2/32"}, sets[0].Members)
	require.Contains(t, sets[0].Meaning, "cart")
	require.Len(t, get[[]api.Route](t, r, "/v1/routes"), 2)
	require.Contains(t, get[api.Ruleset](t, r, "/v1/ruleset").Table, "table inet wayleave {")

	explain := func(q api.Question) ([]api.Explanation, error) {
		return api.Send[[]api.Explanation](t.Context(), r.Client, http.MethodPost, "/v1/explain", q)
	}
	list, err := explain(api.Question{From: "shop/cart", To: "shop/web", Port: "tcp/80"})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Contains(t, list[0].Text, ": Allow\n")
	require.Contains(t, string(list[0].Explanation), `"combined":"Allow"`)
	_, err = explain(api.Question{From: "shop/nobody", To: "shop/web", Port: "tcp/80"})
	require.ErrorContains(t, err, `"shop/nobody"`)
	_, err = api.Get[api.Status](t.Context(), r.Client, "/v1/nothing")
	require.ErrorContains(t, err, "404")
	_, err = api.Send[struct{}](t.Context(), r.Client, http.MethodPost, "/v1/wait", api.Wait{Endpoint: "shop/web"})
	require.NoError(t, err)
	r.end(t)
	_, err = api.Get[api.Status](t.Context(), r.Client, "/v1/status")
	require.ErrorIs(t, err, api.ErrNoAgent)
}

// A plan lists the changes and makes none.
func TestPlan(t *testing.T) {
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	before := get[api.Ruleset](t, r, "/v1/ruleset")
	plan := func(f api.Folder) api.Plan {
		p, err := api.Send[api.Plan](t.Context(), r.Client, http.MethodPost, "/v1/plan", f)
		require.NoError(t, err)
		return p
	}
	same := map[string]string{
		"pods.yaml":   namespace + pod("web", "10.0.0.1") + pod("cart", "10.0.0.2"),
		"policy.yaml": allow("cart", "web", 80),
	}
	p := plan(api.Folder{Files: same})
	require.Empty(t, p.Kernel)
	require.Empty(t, p.Objects)
	require.Empty(t, p.Flips)
	require.NotZero(t, p.Flows)

	other := map[string]string{
		"a.yaml": allow("cart", "web", 81), "b.yaml": allow("web", "cart", 81), "c.yaml": allow("web", "cart", 82),
		"d.yaml": "kind: [",
	}
	p = plan(api.Folder{Files: other, OnTop: true})
	require.Equal(t, []string{"+ Policy/shop/knp.default.to-cart", "~ Policy/shop/knp.default.to-web"}, p.Objects)
	require.NotEmpty(t, p.Kernel)
	require.Len(t, p.Rejected, 2)
	flips := map[string]string{}
	for _, f := range p.Flips {
		for _, port := range f.Ports {
			flips[f.From[0]+" "+f.To[0]+" "+port] = f.Before + " " + f.After
		}
	}
	require.Equal(t, "Allow Deny", flips["shop/cart shop/web tcp/80"])
	require.Equal(t, "Deny Allow", flips["shop/cart shop/web tcp/81"])
	require.Equal(t, "Allow Deny", flips["shop/web shop/cart tcp/80"])
	require.NotContains(t, flips, "shop/web shop/cart tcp/81")

	// If egress policy denies a flow that ingress policy denied before, the verdict does not
	// change.
	noEgress := strings.NewReplacer("name: to-web", "name: none", "app: web", "app: cart", "Ingress",
		"Egress").Replace(allow("cart", "web", 80))
	noEgress, _, _ = strings.Cut(noEgress, "  ingress:")
	p = plan(api.Folder{Files: map[string]string{"e.yaml": noEgress}, OnTop: true})
	require.Empty(t, p.Rejected)
	require.NotEmpty(t, p.Flips)
	for _, f := range p.Flips {
		require.NotEqual(t, f.Before, f.After, "%+v", f)
	}

	p = plan(api.Folder{Files: map[string]string{}})
	require.Contains(t, p.Objects, "- WorkloadEndpoint/shop/web")
	require.Equal(t, before, get[api.Ruleset](t, r, "/v1/ruleset"))
	r.end(t)
}

// A registered endpoint is in the kernel when the request returns, and after a restart.
func TestRegister(t *testing.T) {
	node, dir, state := nstest.New(t), t.TempDir(), t.TempDir()
	r := start(t, node, dir, state)
	r.until(t, well)
	nstest.NewWorkload(t, node, "way0", "10.0.0.9")
	put := func(ctx context.Context, body string) (api.Registered, error) {
		return api.Send[api.Registered](ctx, r.Client, http.MethodPut, "/v1/registry", jsonText(body))
	}
	answer, err := put(t.Context(), `{"namespace":"shop","name":"new","interface":"way0","addresses":["10.0.0.9"]}`)
	require.NoError(t, err)
	require.Equal(t, "up", answer.State)
	require.Equal(t, "n", answer.Endpoint.Node)
	require.Contains(t, get[api.Ruleset](t, r, "/v1/ruleset").Table, `"way0"`)
	_, err = put(t.Context(), `{"name":"bad"}`)
	require.Error(t, err)

	// The error of an endpoint that cannot be programmed has the reason.
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := put(ctx, `{"namespace":"shop","name":"late","interface":"way1","addresses":["10.0.0.10"]}`)
		failed <- err
	}()
	r.until(t, func(pipeline.State) bool { return strings.Contains(r.stateOf(t, "late"), "no such interface") })
	require.Empty(t, failed)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	query := "/v1/registry?namespace=shop&name=late"
	late := get[api.Registered](t, r, query)
	require.Equal(t, "down", late.State)
	require.Contains(t, late.Error, "way1")
	require.Empty(t, get[api.Status](t, r, "/v1/status").LastError, "S124: no failure")
	for range 2 {
		_, err = api.Send[struct{}](t.Context(), r.Client, http.MethodDelete, query, nil)
		require.NoError(t, err)
	}
	require.Nil(t, get[api.Registered](t, r, query).Endpoint)
	r.end(t)

	r = start(t, node, dir, state)
	r.until(t, func(s pipeline.State) bool { return well(s) && strings.Contains(s.Table().String(), `"way0"`) })
	require.Equal(t, "up", get[api.Registered](t, r, "/v1/registry?namespace=shop&name=new").State)
	r.end(t)
}

// jsonText is JSON that is sent unchanged.
type jsonText string

func (t jsonText) MarshalJSON() ([]byte, error) { return []byte(t), nil }

// Settings among the manifests apply from the start. If they change, the pipeline restarts. If they
// are invalid, the previous ones stay in effect.
func TestSettingsInTheDatastore(t *testing.T) {
	node, dir := shop(t)
	object := func(name, spec string) string {
		return "apiVersion: wayleave.dev/v1\nkind: AgentConfig\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
	}
	write(t, dir, "settings.yaml", object("default", "{apply-burst: 5, log-level: WARN}")+"---\n"+
		object("node.other", "{apply-burst: 9}"))
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	value := func(key string) string {
		for _, v := range get[[]settings.Value](t, r, "/v1/config") {
			if v.Key == key {
				return v.Value + " from " + v.Origin
			}
		}
		return ""
	}
	require.Equal(t, "5 from datastore AgentConfig default (settings.yaml)", value("apply-burst"))
	require.Equal(t, "n from test", value("node"))
	require.Zero(t, get[api.Status](t, r, "/v1/status").Restarts)

	events := make(chan api.Event, 1000)
	watching, stop := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() {
		watched <- api.Stream(watching, r.Client, "/v1/watch", func(e api.Event) error {
			events <- e
			return nil
		})
	}()
	until := func(kind, text string) {
		timeout := time.After(waitTimeout)
		for {
			select {
			case e := <-events:
				if e.Type == kind && strings.Contains(e.Text, text) {
					return
				}
			case <-timeout:
				t.Fatalf("no event %s %s; log:\n%s", kind, text, r.log)
			}
		}
	}
	until("watching", "")
	write(t, dir, "broken.yaml", "kind: [")
	until("rejected", "broken.yaml")
	write(t, dir, "own.yaml", object("node.n", "{apply-burst: 6}"))
	until("settings", "restarting")
	until("endpoint", "up")
	require.Equal(t, "6 from datastore AgentConfig node.n (own.yaml)", value("apply-burst"))
	require.Equal(t, uint64(1), get[api.Status](t, r, "/v1/status").Restarts)

	write(t, dir, "own.yaml", object("node.n", "{apply-burst: 0, table: theirs}"))
	until("settings", "table: cannot be set in the datastore")
	require.Equal(t, "6 from datastore AgentConfig node.n (own.yaml)", value("apply-burst"))
	require.Len(t, get[api.Status](t, r, "/v1/status").Settings, 2)
	require.Contains(t, r.log.String(), "no change of settings takes effect until all are valid")

	require.NoError(t, os.Remove(filepath.Join(dir, "own.yaml")))
	until("settings", "restarting")
	until("endpoint", "up")
	require.Empty(t, get[api.Status](t, r, "/v1/status").Settings)
	require.Equal(t, "5 from datastore AgentConfig default (settings.yaml)", value("apply-burst"))
	stop()
	require.ErrorIs(t, <-watched, context.Canceled)
	r.end(t)
}

func TestRunFails(t *testing.T) {
	run := func(values map[string]string) error {
		values["socket"] = filepath.Join(t.TempDir(), "s")
		values["endpoint-dir"] = ""
		return daemon.Run(t.Context(), daemon.Config{Below: []settings.Layer{{Source: "test", Values: values}}})
	}
	require.ErrorContains(t, run(map[string]string{"frob": "1", "apply-burst": "0"}), "frob")
	require.ErrorContains(t, run(map[string]string{"http-address": "nowhere"}), "nowhere")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	address := taken.Addr().String()
	require.ErrorContains(t, run(map[string]string{"http-address": address}), "http-address: listen tcp "+address+": ")
	require.ErrorContains(t, run(map[string]string{"http-address": ""}), "Sources: required")
}

// The agent serves profiles of its process, in the format of go tool pprof and as text.
func TestProfile(t *testing.T) {
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	packed, err := r.Raw(t.Context(), "/v1/profile?name=heap")
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(packed, []byte{0x1f, 0x8b}), "gzip, as pprof has it")
	text, err := r.Raw(t.Context(), "/v1/profile?name=goroutine&text=true")
	require.NoError(t, err)
	require.Contains(t, string(text), "pipeline.(*Pipeline).drive")
	_, err = r.Raw(t.Context(), "/v1/profile?name=nothing")
	require.ErrorContains(t, err, `there is no profile "nothing"`)
	r.end(t)
}
