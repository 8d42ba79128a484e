// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/examples/agent/internal/kube"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/registry"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
)

// sourceRegistered is the name of the source that the registered endpoints are.
const sourceRegistered = "registered"

// registered holds the endpoints that were registered over the socket. It also holds the endpoints
// that were removed and may still be in the kernel: a new endpoint with their address waits for
// them. It is safe for concurrent use.
type registered struct {
	*registry.Registry
	// kube has the endpoints that are pods of its API; nil if there is none.
	kube *kube.API

	mu       sync.Mutex // held while a change is checked and made
	removals map[policy.Key]*removal
}

// removal is one removal of an endpoint. It has the addresses of the endpoint.
type removal struct{ addresses []netip.Addr }

// openRegistry reads the registered endpoints. The agent must hold the lock of its socket. A CNI
// plugin that gets the lock removes the file of an endpoint itself, so the agent must not have read
// it before.
func (d *Daemon) openRegistry() error {
	if d.local.EndpointDir == "" {
		return nil
	}
	r, problems, err := registry.Open(d.local.EndpointDir)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		d.logger.Error("a registered endpoint is invalid, so it is absent", "err", problem)
		d.reject(problem)
	}
	d.registry = &registered{Registry: r, kube: d.kube, removals: map[policy.Key]*removal{}}
	for _, problem := range d.registry.attachAll() {
		d.logger.Error("a pod cannot be attached, so it is absent", "err", problem)
		d.reject(problem)
	}
	return nil
}

// put registers an endpoint unless another registered one has one of its addresses or its
// interface.
func (r *registered) put(ctx context.Context, e *policy.WorkloadEndpoint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, addr := range e.Addresses {
		if other := r.Holder(addr); other != nil && other.Key() != e.Key() {
			return fmt.Errorf("address %s belongs to endpoint %s/%s, which is registered: remove that endpoint first",
				addr, other.Namespace, other.Name)
		}
	}
	if other := r.OnInterface(e.Interface, e.Key()); other != nil {
		return pipeline.InterfaceError(e.Interface, other.Key())
	}
	if err := r.Put(ctx, e); err != nil {
		return err
	}
	if err := r.attach(e); err != nil {
		return errors.Join(err, r.Delete(ctx, e.Key()))
	}
	delete(r.removals, e.Key())
	return nil
}

// remove removes an endpoint. It keeps and returns an endpoint with another MAC address than the
// given one; "" is any MAC address. uid is that of the pod, if it is one.
func (r *registered) remove(
	ctx context.Context, key policy.Key, mac, uid string,
) (another *policy.WorkloadEndpoint, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.Get(key)
	if e != nil && mac != "" && e.MAC != mac {
		return e, nil
	}
	if err := r.Delete(ctx, key); err != nil {
		return nil, err
	}
	r.detach(key, e, uid)
	if e != nil {
		r.removals[key] = &removal{e.Addresses}
	}
	return nil, nil
}

// lastRemoval returns the last removal of an endpoint, or nil if the endpoint is out of the kernel
// or registered again.
func (r *registered) lastRemoval(key policy.Key) *removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removals[key]
}

// endRemoval records that an endpoint was out of the kernel after a removal. A later removal of the
// endpoint does not end.
func (r *registered) endRemoval(key policy.Key, removal *removal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.removals[key] == removal {
		delete(r.removals, key)
	}
}

// previousHolders returns the sorted keys of removed endpoints that had one of the addresses and
// may still be in the kernel.
func (r *registered) previousHolders(addrs []netip.Addr) (keys []policy.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, theirs := range r.removals {
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return slices.Contains(theirs.addresses, a) }) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, policy.Key.Compare)
	return keys
}

var errNoRegistry = errors.New("no endpoints can be registered: the setting endpoint-dir is empty")

// limited returns the context of a request, which ends after the timeout in the request. The client
// can then still receive the cause.
func limited(r *http.Request) (context.Context, context.CancelFunc, error) {
	text := r.URL.Query().Get("timeout")
	if text == "" {
		ctx, cancel := context.WithCancel(r.Context())
		return ctx, cancel, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil {
		return nil, nil, fmt.Errorf("timeout: %w", err)
	}
	if timeout <= 0 {
		return nil, nil, fmt.Errorf("timeout: want more than 0s, not %s", text)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	return ctx, cancel, nil
}

// register registers an endpoint of this node. It waits until the endpoint is programmed, and the
// previous holders of its addresses are out of the kernel.
func (d *Daemon) register(r *http.Request, p *pipeline.Pipeline) (any, error) {
	if d.registry == nil {
		return nil, errNoRegistry
	}
	e, err := readEndpoint(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := limited(r)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if e.Node == "" {
		e.Node = d.local.Node
	}
	if e.Node != d.local.Node {
		return nil, fmt.Errorf("%s is an endpoint of node %s, and this is %s", e.Key(), e.Node, d.local.Node)
	}
	if err := d.markPod(e, r.URL.Query()); err != nil {
		return nil, err
	}
	if err := d.waitOn(ctx, p, func(p *pipeline.Pipeline) error { return d.store(ctx, p, e) }); err != nil {
		return nil, err
	}
	if err := d.waitOn(ctx, p, func(p *pipeline.Pipeline) error { return d.waitRegistered(ctx, p, e) }); err != nil {
		return nil, fmt.Errorf("%s is registered and not programmed yet: %w", e.Key(), err)
	}
	for _, key := range d.registry.previousHolders(e.Addresses) {
		if err := d.waitRemoved(ctx, p, key); err != nil {
			return nil, err
		}
	}
	return d.registration(e.Key()), nil
}

// waitRegistered waits until a registered endpoint is programmed.
func (d *Daemon) waitRegistered(ctx context.Context, p *pipeline.Pipeline, e *policy.WorkloadEndpoint) error {
	if _, ok := d.registry.podUID(e); ok {
		return d.waitPod(ctx, p, e)
	}
	// Without the barrier, the driver may know only an earlier endpoint of that name.
	if err := d.registry.Barrier(ctx); err != nil {
		return stopped(err)
	}
	return p.WaitProgrammed(ctx, e)
}

// stopped returns the error of a barrier. That of a pipeline that has ended is dataplane.ErrStopped: another pipeline
// replaces it.
func stopped(err error) error {
	if errors.Is(err, calcgraph.ErrStopped) {
		return dataplane.ErrStopped
	}
	return err
}

// store registers an endpoint unless its interface belongs to another one. It waits until the
// sources have been read: before that, any interface seems free.
func (d *Daemon) store(ctx context.Context, p *pipeline.Pipeline, e *policy.WorkloadEndpoint) error {
	err := p.WaitSources(ctx)
	switch {
	case errors.Is(err, dataplane.ErrStopped):
		return err
	case err != nil:
		return fmt.Errorf("%s is not registered: until all sources are read, interface %q may be another endpoint's; "+
			"not read completely: %s: %w", e.Key(), e.Interface, d.waitingFor(p), err)
	}
	if err := p.CheckInterface(e); err != nil {
		return err
	}
	return d.registry.put(ctx, e)
}

// readEndpoint decodes the body of a request: a workload endpoint, as in policy.Decode. The kind is optional.
func readEndpoint(r *http.Request) (*policy.WorkloadEndpoint, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	members := map[string]json.RawMessage{}
	if json.Unmarshal(data, &members) == nil && members["kind"] == nil {
		start := bytes.IndexByte(data, '{') + 1
		kind := `"kind":"WorkloadEndpoint"`
		if len(members) > 0 {
			kind += ","
		}
		data = slices.Insert(data, start, []byte(kind)...)
	}
	resource, err := policy.Decode(data)
	if err != nil {
		return nil, err
	}
	e, ok := resource.(*policy.WorkloadEndpoint)
	if !ok {
		return nil, fmt.Errorf("%s is no workload endpoint", resource.Key())
	}
	return e, nil
}

// waitRemoved waits until an endpoint that is no longer registered is out of the kernel.
func (d *Daemon) waitRemoved(ctx context.Context, p *pipeline.Pipeline, key policy.Key) error {
	removal := d.registry.lastRemoval(key)
	err := d.waitOn(ctx, p, func(p *pipeline.Pipeline) error {
		if d.kube != nil { // without it, the API's endpoint of that name may be the one that was detached
			if err := d.kube.Barrier(ctx); err != nil {
				return stopped(err)
			}
		}
		return p.WaitRemoved(ctx, key, sourceRegistered)
	})
	if waiting := d.waitingFor(d.current()); err != nil && waiting != "" {
		return fmt.Errorf("%s/%s is not registered; until all sources are read, it may still be in the kernel; "+
			"not read completely: %s: %w", key.Namespace, key.Name, waiting, err)
	}
	if err != nil {
		err = errors.Join(err, d.current().Driver().Status().LastError)
		return fmt.Errorf("%s/%s is not registered any more, and still in the kernel: %w", key.Namespace, key.Name, err)
	}
	d.registry.endRemoval(key, removal)
	return nil
}

func keyOf(r *http.Request) policy.Key {
	q := r.URL.Query()
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: q.Get("namespace"), Name: q.Get("name")}
}

func (d *Daemon) registered(r *http.Request, _ *pipeline.Pipeline) (any, error) {
	if d.registry == nil {
		return nil, errNoRegistry
	}
	return d.registration(keyOf(r)), nil
}

// registration returns a registered endpoint and its state; zero if it is not registered.
func (d *Daemon) registration(key policy.Key) api.Registered {
	answer := api.Registered{Endpoint: d.registry.Get(key)}
	if answer.Endpoint != nil {
		s := d.current().Status().Endpoints[key]
		answer.State, answer.Error = s.State.String(), text(s.Err)
	}
	return answer
}

// unregister removes an endpoint, and waits until it is out of the kernel. It keeps and returns an
// endpoint with another MAC address than the given one.
func (d *Daemon) unregister(r *http.Request, p *pipeline.Pipeline) (any, error) {
	ctx, cancel, err := limited(r)
	if err != nil {
		return nil, err
	}
	defer cancel()
	key := keyOf(r)
	if d.registry == nil { // an agent before this one may have had it
		return api.Registered{}, d.waitOn(ctx, p, func(p *pipeline.Pipeline) error { return p.WaitRemoved(ctx, key) })
	}
	q := r.URL.Query()
	another, err := d.registry.remove(ctx, key, q.Get("mac"), q.Get(api.PodUID))
	if err != nil {
		return nil, err
	}
	if another != nil {
		return d.registration(key), nil
	}
	return api.Registered{}, d.waitRemoved(ctx, p, key)
}
