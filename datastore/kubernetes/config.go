// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/wayleave/wayleave/kubernetes/convert"
)

// Config configures a Source. Client and Dynamic are required.
type Config struct {
	// Client reads Pods, Namespaces, ServiceAccounts, Nodes and EndpointSlices, and which kinds the server has.
	// The Source keeps no copy of the objects.
	Client kubernetes.Interface
	// Informers are the caller's informers, from which the Source reads these kinds instead. Run starts those
	// that do not run yet; they end with Run then. Their objects must have what Transform keeps. nil means
	// none.
	Informers informers.SharedInformerFactory
	// Dynamic reads NetworkPolicies, ClusterNetworkPolicies and the kinds of Calico, with all their fields: a
	// field that this version does not know closes its rule, or leaves out its object.
	Dynamic dynamic.Interface
	// Node is the name of this node, as spec.nodeName of its pods has it. Only its pods can be attached. Empty
	// means none.
	Node string
	// Converter converts the objects. Its Attachment must be nil: see Source.Attach.
	Converter convert.Converter
	// Omit has the kinds that are not read, in the form of Kinds. The default is to read all.
	Omit []string
	// Hooks are called with what the Source finds out about objects. The default is none.
	Hooks Hooks
	// Logger for warnings and information. nil discards.
	Logger *slog.Logger
}

// Hooks are functions that a Source calls before it sends what came of the object. Each may be nil. They are called
// one at a time, and must not call the Source. The methods of report.Reporter have these forms.
type Hooks struct {
	// Problems receives what is wrong with an object, each a *convert.Error, when that changes: without problems
	// once there are none any more. It also receives an object, except a Pod, that changes otherwise.
	Problems func(object convert.Object, problems []error)
	// Accepted receives the same of a ClusterNetworkPolicy, the status of which has conditions, and each of its
	// generations, also the first one without problems. The default is to call Problems.
	Accepted func(object convert.Object, generation int64, problems []error)
	// Deleted receives each object that the server no longer has, without a UID. Of Pods, it receives only those
	// with problems.
	Deleted func(object convert.Object)
}

func (c Config) withDefaults() Config {
	c.Omit = slices.Clone(c.Omit)
	if c.Hooks.Problems == nil {
		c.Hooks.Problems = func(convert.Object, []error) {}
	}
	if c.Hooks.Accepted == nil {
		c.Hooks.Accepted = func(object convert.Object, _ int64, problems []error) { c.Hooks.Problems(object, problems) }
	}
	if c.Hooks.Deleted == nil {
		c.Hooks.Deleted = func(convert.Object) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("kubernetes: Config: Client is nil"))
	}
	if c.Dynamic == nil {
		errs = append(errs, errors.New("kubernetes: Config: Dynamic is nil"))
	}
	if c.Converter.Attachment != nil {
		errs = append(errs, errors.New("kubernetes: Config: Converter.Attachment must be nil"))
	}
	for _, kind := range c.Omit {
		if !slices.Contains(Kinds(), kind) {
			errs = append(errs, fmt.Errorf("kubernetes: Config: Omit: no kind %q", kind))
		}
	}
	return errors.Join(errs...)
}
