// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/wayleave/wayleave/datastore/kubernetes"
)

// The backends.
const (
	backendKubernetes = "kubernetes"
	backendEtcd       = "etcd"
	backendProxy      = "etcd-proxy"
)

// backends are all backends, in the order of a full run.
func backends() []string { return []string{backendKubernetes, backendEtcd, backendProxy} }

// config configures a run.
type config struct {
	Nodes, PodsPerNode, Policies, Processes int
	Backends, Scenarios, Omit               []string
	Repeat                                  int
	Rate                                    int
	Churn, Idle, Timeout                    time.Duration
	Verify                                  int
	Profiles                                string
}

// parse reads the flags. Errors: flag.ErrHelp, and those of the flags.
func parse(args []string, out io.Writer) (config, error) {
	c := config{}
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&c.Nodes, "nodes", 100, "number of nodes")
	flags.IntVar(&c.PodsPerNode, "pods-per-node", 10, "pods on each node; every node keeps those of all nodes")
	flags.IntVar(&c.Policies, "policies", 100, "number of policies, beside the one that all nodes have")
	flags.IntVar(&c.Processes, "processes", 2, "number of worker processes, which share the nodes")
	flags.IntVar(&c.Repeat, "repeat", 3, "number of runs of each scenario with a latency")
	flags.IntVar(&c.Rate, "rate", 100, "new pods a second in the scenario churn; as many are deleted")
	flags.DurationVar(&c.Churn, "churn", 30*time.Second, "length of the scenario churn")
	flags.DurationVar(&c.Idle, "idle", 2*time.Minute, "length of the scenario idle")
	flags.DurationVar(&c.Timeout, "timeout", 15*time.Minute, "how long a change may take to reach all nodes")
	flags.IntVar(&c.Verify, "verify", 10, "number of nodes whose state is compared with a fresh graph at the end")
	flags.StringVar(&c.Profiles, "profiles", "", "existing folder for a processor profile of each worker")
	backend := flags.String("backend", backendKubernetes,
		"comma-separated list of "+strings.Join(backends(), ", ")+", or all")
	names := flags.String("scenario", "all",
		"comma-separated list of "+strings.Join(scenarioNames(), ", ")+", or all")
	omit := flags.String("omit", "", "comma-separated list of kinds that the nodes do not read, or "+omitCRDs+
		": all that are not of Kubernetes itself")
	flags.Usage = func() {
		fmt.Fprintln(out, "fleet runs many nodes against one API server or one etcd, and measures their load.")
		fmt.Fprintln(out, "WAYLEAVE_KUBERNETES_BIN is the folder of the programs kube-apiserver and etcd:")
		fmt.Fprintln(out, "`make fleet` builds them and sets it. The scenarios:")
		for _, s := range scenarios() {
			fmt.Fprintf(out, "  %-10s %s\n", s.name, s.what)
		}
		fmt.Fprintln(out, "The flags:")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	c.Backends, c.Scenarios = list(*backend, backends()), list(*names, scenarioNames())
	if c.Omit = list(*omit, nil); *omit == omitCRDs {
		c.Omit = slices.DeleteFunc(kubernetes.Kinds(), func(kind string) bool {
			_, group, _ := strings.Cut(kind, ".")
			return group != "projectcalico.org" && group != "policy.networking.k8s.io"
		})
	}
	return c, c.validate(flags.Args())
}

// omitCRDs omits all kinds that an API server has only with CRDs or an extension.
const omitCRDs = "crds"

// list splits a list; "all" means all.
func list(text string, all []string) []string {
	if text == "" {
		return nil
	}
	if text == "all" {
		return all
	}
	return strings.Split(text, ",")
}

func (c config) validate(rest []string) error {
	var errs []error
	if len(rest) > 0 {
		errs = append(errs, fmt.Errorf("unexpected arguments: %s", strings.Join(rest, " ")))
	}
	for name, n := range map[string]int{
		"--nodes": c.Nodes, "--processes": c.Processes, "--repeat": c.Repeat, "--rate": c.Rate,
		"--policies": c.Policies,
	} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("%s must be positive", name))
		}
	}
	if c.PodsPerNode < 2 {
		errs = append(errs, errors.New("--pods-per-node must be at least 2"))
	}
	if c.Nodes*c.PodsPerNode > maxPods {
		errs = append(errs, fmt.Errorf("at most %d pods", maxPods))
	}
	for _, b := range c.Backends {
		if !slices.Contains(backends(), b) {
			errs = append(errs, fmt.Errorf("--backend: no backend %q", b))
		}
	}
	for _, s := range c.Scenarios {
		if !slices.Contains(scenarioNames(), s) {
			errs = append(errs, fmt.Errorf("--scenario: no scenario %q", s))
		}
	}
	return errors.Join(errs...)
}
