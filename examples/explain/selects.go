// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/selector/labelindex"
)

// selectsNothing is the exit status if a policy selects nothing.
const selectsNothing = 1

func selectsCommand() cli.Command {
	return cli.Command{
		Name:    "selects",
		Args:    "PATH...",
		Summary: "list which endpoints each policy selects",
		About: `Lists the endpoints that each policy selects by their labels and by the labels of their
namespaces and service accounts. It reads files and folders of Kubernetes and Calico manifests. If a policy
selects nothing, its selector often has a misspelt label. Examples:

  explain selects manifests
  explain selects manifests --json

The exit status is 0, or 1 if a policy selects nothing, or 2 after an error.` + exitStatuses,
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var q selectsQuestion
			q.reading.flags(flags)
			flags.BoolVar(&q.json, "json", false, "write JSON")
			return func(_ context.Context, c cli.Console, args []string) error {
				q.paths = args
				return q.run(c)
			}
		},
	}
}

// selectsQuestion has the arguments of one command line.
type selectsQuestion struct {
	reading
	paths []string
	json  bool
}

// selection is a policy and the endpoints that it selects, sorted.
type selection struct {
	Policy    string   `json:"policy"`
	Endpoints []string `json:"endpoints"`
}

func (q *selectsQuestion) run(c cli.Console) error {
	if len(q.paths) == 0 {
		return cli.Usagef("selects: want files or folders of manifests")
	}
	f, err := q.read(c, "", q.paths...)
	if err != nil {
		return err
	}
	selections, err := selectionsOf(f.World)
	if err != nil {
		return err
	}
	status := 0
	for _, s := range selections {
		if len(s.Endpoints) == 0 {
			status = selectsNothing
		}
	}
	if q.json {
		err = printJSON(c, struct {
			Selections []selection `json:"selections"`
			Rejected   []string    `json:"rejected"`
		}{selections, rejections(f)})
		if err != nil {
			return err
		}
		return q.status(c, status, f)
	}
	for _, s := range selections {
		endpoints := strings.Join(s.Endpoints, ", ")
		if endpoints == "" {
			endpoints = "nothing"
		}
		c.Printf("%s selects %s\n", s.Policy, endpoints)
	}
	return q.status(c, status, f)
}

// selectionsOf returns the policies in w, sorted, with the endpoints that they select.
func selectionsOf(w verdict.World) ([]selection, error) {
	index, err := labelindex.New(labelindex.Config[policy.Key, policy.Key]{
		CompareItems: policy.Key.Compare, CompareSelectors: policy.Key.Compare,
	})
	if err != nil {
		return nil, err
	}
	var policies []policy.Key
	for _, key := range slices.SortedFunc(maps.Keys(w), policy.Key.Compare) {
		switch r := w[key].(type) {
		case *policy.Profile:
			index.UpdateParent(r.Name, r.LabelsToApply)
		case *policy.WorkloadEndpoint:
			labels := maps.Clone(r.Labels)
			if r.Namespace != "" { // by this label, a policy of a namespace is limited to its namespace
				if labels == nil {
					labels = map[string]string{}
				}
				labels[policy.LabelNamespace] = r.Namespace
			}
			index.UpdateItem(key, labels, r.Profiles)
		case *policy.HostEndpoint:
			index.UpdateItem(key, r.Labels, r.Profiles)
		case *policy.Policy:
			sel, err := calcgraph.PolicySelector(r)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			index.UpdateSelector(key, sel)
			policies = append(policies, key)
		}
	}
	selections := make([]selection, 0, len(policies))
	for _, key := range policies {
		s := selection{Policy: key.String(), Endpoints: []string{}}
		for endpoint := range index.Items(key) {
			name := strings.TrimPrefix(endpoint.String(), string(policy.KindWorkloadEndpoint)+"/")
			s.Endpoints = append(s.Endpoints, name)
		}
		selections = append(selections, s)
	}
	return selections, nil
}
