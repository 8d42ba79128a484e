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

// sourceRegistered is the name of the source of registered endpoints.
const sourceRegistered = "registered"

// registered has the endpoints that were registered over the socket. It also has endpoints that
// were removed and may still be in the kernel. A new endpoint with one of their addresses waits
// until they are removed from the kernel. The type registered is safe for concurrent use.
type registered struct {
	*registry.Registry
	// kube is the source for endpoints that are pods of the Kubernetes API; nil if the API is not
	// used.
	kube *kube.API

	mu       sync.Mutex // held while a change is checked and made
	removals map[policy.Key]*removal
}

// removal is one removal of an endpoint, with the addresses that the endpoint had.
type removal struct{ addresses []netip.Addr }

// openRegistry reads the files of registered endpoints. The agent must hold the lock of its socket.
// While no agent has the lock, a CNI plugin may take it and remove the file of an endpoint itself.
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

// put registers an endpoint, unless another registered endpoint has its interface or one of its
// addresses.
func (r *registered) put(ctx context.Context, e *policy.WorkloadEndpoint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, addr := range e.Addresses {
		if other := r.Owner(addr); other != nil && other.Key() != e.Key() {
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

// remove removes an endpoint. If the registered endpoint has another MAC address than the given
// one, it is kept and returned. The address "" matches any MAC address. uid is the UID of the pod,
// if the endpoint is a pod.
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

// lastRemoval returns the last removal of an endpoint. It returns nil if the endpoint is no longer
// in the kernel, or is registered again.
func (r *registered) lastRemoval(key policy.Key) *removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removals[key]
}

// endRemoval records that the kernel no longer has an endpoint after a removal. If the endpoint was
// registered and removed again since, the later removal has not ended.
func (r *registered) endRemoval(key policy.Key, removal *removal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.removals[key] == removal {
		delete(r.removals, key)
	}
}

// previousOwners returns the sorted keys of removed endpoints that had one of the addresses and
// that may still be in the kernel.
func (r *registered) previousOwners(addrs []netip.Addr) (keys []policy.Key) {
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

// limited returns a context for a request, which ends after the timeout in the request. Then the
// client is still connected and can receive the cause.
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

// register registers an endpoint of this node. It waits until the endpoint is programmed, and until
// the kernel no longer has removed endpoints that had its addresses.
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
	for _, key := range d.registry.previousOwners(e.Addresses) {
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
	// Without the barrier, the driver may only have an earlier endpoint with that name.
	if err := d.registry.Barrier(ctx); err != nil {
		return stopped(err)
	}
	return p.WaitProgrammed(ctx, e)
}

// stopped converts the error of a barrier. If the pipeline has ended, the error is
// dataplane.ErrStopped, and another pipeline replaces it.
func stopped(err error) error {
	if errors.Is(err, calcgraph.ErrStopped) {
		return dataplane.ErrStopped
	}
	return err
}

// store registers an endpoint, unless its interface belongs to another endpoint. It first waits
// until all sources have been read: before that, endpoints of other sources are not known.
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

// readEndpoint decodes the body of a request: a workload endpoint in the format of policy.Decode.
// The kind is optional.
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
		return nil, fmt.Errorf("%s is not a workload endpoint", resource.Key())
	}
	return e, nil
}

// waitRemoved waits until the kernel no longer has an endpoint that is no longer registered.
func (d *Daemon) waitRemoved(ctx context.Context, p *pipeline.Pipeline, key policy.Key) error {
	removal := d.registry.lastRemoval(key)
	err := d.waitOn(ctx, p, func(p *pipeline.Pipeline) error {
		if d.kube != nil { // otherwise the source of the API may still have the detached endpoint
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

// registration returns a registered endpoint and its state. It returns zero if the endpoint is not
// registered.
func (d *Daemon) registration(key policy.Key) api.Registered {
	answer := api.Registered{Endpoint: d.registry.Get(key)}
	if answer.Endpoint != nil {
		s := d.current().Status().Endpoints[key]
		answer.State, answer.Error = s.State.String(), text(s.Err)
	}
	return answer
}

// unregister removes an endpoint, and waits until the kernel no longer has it. If the registered
// endpoint has another MAC address than the given one, it is kept and returned.
func (d *Daemon) unregister(r *http.Request, p *pipeline.Pipeline) (any, error) {
	ctx, cancel, err := limited(r)
	if err != nil {
		return nil, err
	}
	defer cancel()
	key := keyOf(r)
	if d.registry == nil { // an earlier agent may have registered the endpoint
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
