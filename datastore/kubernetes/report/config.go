// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// Config configures a Reporter. Client, Dynamic and Node are required.
type Config struct {
	// Client writes Events, the Node and the Lease. Limit its rate: the Reporter has only the
	// limits that the package documentation lists.
	Client kubernetes.Interface
	// Dynamic writes conditions and the node's report.
	Dynamic dynamic.Interface
	// Node is the name of this node, and its identity as a candidate for the Lease.
	Node string
	// Version of the agent, for the node's report; at most 256 bytes. The default is none.
	Version string
	// LeaseNamespace and LeaseName name the Lease whose holder writes for all nodes. The default is
	// kube-system/wayleave-reporter.
	LeaseNamespace, LeaseName string
	// Interval is the minimum time between two writes of the node's report. Up to a fifth of it is
	// added at random. The default is 10 s, the minimum 1 s.
	Interval time.Duration
	// Revisions returns, by kind, the resourceVersion up to which the Source has received all
	// changes. Kinds are named as in "networkpolicies.networking.k8s.io" or "pods". It must not
	// block. If a kind changes all the time, as pods do, the report is written at every Interval.
	// The default is none.
	Revisions func() map[string]string
	// Barrier waits until the kernel has all changes up to the versions that Revisions returned
	// before the call. It returns an error if it cannot know that. It is required if Revisions is
	// set.
	Barrier func(ctx context.Context) error
	// Logger for warnings and information. nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.LeaseNamespace = cmp.Or(c.LeaseNamespace, "kube-system")
	c.LeaseName = cmp.Or(c.LeaseName, "wayleave-reporter")
	c.Interval = cmp.Or(c.Interval, 10*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("report: Config.Client: required"))
	}
	if c.Dynamic == nil {
		errs = append(errs, errors.New("report: Config.Dynamic: required"))
	}
	for _, msg := range validation.IsDNS1123Subdomain(c.Node) {
		errs = append(errs, fmt.Errorf("report: Config.Node: %s", msg))
	}
	if len(c.Version) > 256 {
		errs = append(errs, errors.New("report: Config.Version: longer than 256 bytes"))
	}
	if c.Interval < time.Second {
		errs = append(errs, fmt.Errorf("report: Config.Interval: %v is less than 1 s", c.Interval))
	}
	if (c.Revisions == nil) != (c.Barrier == nil) {
		errs = append(errs, errors.New("report: Config.Revisions and Barrier: set both or neither"))
	}
	return errors.Join(errs...)
}
