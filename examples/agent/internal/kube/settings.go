// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/wayleave/wayleave/examples/agent/internal/settings"
)

// configMaps reads settings from two ConfigMaps: one for all nodes, and one for this node.
type configMaps struct {
	client    kubernetes.Interface
	namespace string
	names     [2]string // for all nodes, and for this one
	changed   func(all, node []settings.Layer)
	failed    func(error)
	loaded    chan struct{} // closed once both have been read

	mu     sync.Mutex
	data   map[string]map[string]string // data of the ConfigMaps that exist
	errs   map[string]error             // why a ConfigMap cannot be read
	inSync bool
}

// newConfigMaps returns the reader of the ConfigMaps NAMESPACE/NAME and NAMESPACE/NAME-node-NODE.
// changed receives the settings once both have been read, and when they change. failed receives
// each error once.
func newConfigMaps(
	client kubernetes.Interface, path, node string, changed func(all, node []settings.Layer), failed func(error),
) *configMaps {
	namespace, name, _ := strings.Cut(path, "/")
	return &configMaps{
		client: client, namespace: namespace, names: [2]string{name, name + "-node-" + node}, changed: changed,
		failed: failed, loaded: make(chan struct{}), data: map[string]map[string]string{}, errs: map[string]error{},
	}
}

// run watches the ConfigMaps until ctx is done.
func (c *configMaps) run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	inner, cancel := context.WithCancel(ctx) // ended before the wait
	defer cancel()
	var synced []cache.InformerSynced
	for _, name := range c.names {
		informer := cache.NewSharedIndexInformerWithOptions(
			c.listWatch(name), &corev1.ConfigMap{}, cache.SharedIndexInformerOptions{},
		)
		// listWatch reports failures. Without a handler, client-go would log each.
		err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
		registration, err2 := informer.AddEventHandler(c.handler(name))
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		synced = append(synced, registration.HasSynced)
		running.Go(func() { informer.RunWithContext(inner) })
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		c.mu.Lock()
		c.inSync = true
		c.notifyLocked()
		c.mu.Unlock()
		close(c.loaded)
	}
	<-ctx.Done()
	return ctx.Err()
}

// listWatch lists and watches one ConfigMap.
func (c *configMaps) listWatch(name string) cache.ListerWatcher {
	client := c.client.CoreV1().ConfigMaps(c.namespace)
	selected := func(o metav1.ListOptions) metav1.ListOptions {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		return o
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, selected(o))
			c.setErr(ctx, name, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, selected(o))
			c.setErr(ctx, name, err)
			return w, err
		},
	}, c.client)
}

// setErr records why a ConfigMap cannot be read; nil means that it can be read.
func (c *configMaps) setErr(ctx context.Context, name string, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.errs[name]
	if c.errs[name] = err; err != nil && (old == nil || reason(old) != reason(err)) {
		c.failed(err)
	}
}

// problem returns the reason why settings cannot be read; "" if they can be.
func (c *configMaps) problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range c.names {
		if err := c.errs[name]; err != nil {
			return "settings: " + reason(err)
		}
	}
	return ""
}

// handler processes the events of one ConfigMap. It ignores events of others, which the server of a
// test may send.
func (c *configMaps) handler(name string) cache.ResourceEventHandlerFuncs {
	set := func(object any, gone bool) {
		m, ok := object.(*corev1.ConfigMap)
		if !ok || m.Name != name {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if gone {
			delete(c.data, name)
		} else {
			c.data[name] = m.Data
		}
		c.notifyLocked()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { set(o, false) },
		UpdateFunc: func(_, o any) { set(o, false) },
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			set(o, true)
		},
	}
}

// notifyLocked sends the settings, if both ConfigMaps have been read.
func (c *configMaps) notifyLocked() {
	if c.inSync {
		c.changed(c.layers(c.names[0]), c.layers(c.names[1]))
	}
}

func (c *configMaps) layers(name string) []settings.Layer {
	data, ok := c.data[name]
	if !ok {
		return nil
	}
	return []settings.Layer{{
		Source: "ConfigMap " + c.namespace + "/" + name, Datastore: true, Values: maps.Clone(data),
	}}
}
