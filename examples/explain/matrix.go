// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"

	"github.com/wayleave/wayleave/examples/explain/internal/folder"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/examples/internal/matrix"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

func matrixCommand() cli.Command {
	return cli.Command{
		Name:    "matrix",
		Args:    "PATH...",
		Summary: "show which pods may connect to which",
		About: `Prints a table for each port that shows which pods may connect to which. It reads files and folders of
Kubernetes and Calico manifests. Examples:

  explain matrix manifests --port tcp/80
  explain matrix manifests --port tcp/80 --port udp/53 --external 198.51.100.7 --external 2001:db8::7
  explain matrix manifests --pods 'shop/*' --all
  explain matrix manifests --port http --json

Without --port, there is a table for each port that policies or pods mention, and one for pings. Pods that
policy cannot tell apart, such as the replicas of a Deployment, share a row. With --all, each pod has a row.
The exit status is 0, or 2 after an error.` + partiesHelp + exitStatuses,
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var q matrixQuestion
			q.reading.flags(flags)
			flags.Var(&q.ports, "port", "`PORT` to reach; may be repeated")
			flags.Var(&q.external, "external", "`ADDRESS` outside to include; may be repeated")
			flags.Var(&q.pods, "pods", "`PODS` to show instead of all, a name or a pattern; may be repeated")
			flags.BoolVar(&q.all, "all", false, "print a row for each pod, also for pods that policy cannot tell apart")
			flags.IntVar(&q.width, "width", 120, "draw tables that are wider than `COLUMNS` in parts; 0 for no limit")
			flags.BoolVar(&q.json, "json", false, "write JSON, with every pair of pods")
			return func(ctx context.Context, c cli.Console, args []string) error {
				q.paths = args
				return q.run(ctx, c)
			}
		},
	}
}

// matrixQuestion has the arguments of one command line.
type matrixQuestion struct {
	reading
	paths                 []string
	ports, external, pods texts
	all, json             bool
	width                 int
}

func (q *matrixQuestion) run(ctx context.Context, c cli.Console) error {
	if len(q.paths) == 0 {
		return cli.Usagef("matrix: want files or folders of manifests")
	}
	if q.width < 0 {
		return cli.Usagef("matrix: --width: %d is less than nothing", q.width)
	}
	ports, err := parsePorts("matrix", q.ports)
	if err != nil {
		return err
	}
	f, err := q.read(c, "", q.paths...)
	if err != nil {
		return err
	}
	if len(ports) == 0 {
		for _, p := range probe.NewPartition(f.World).Ports() {
			if p.Mentioned {
				ports = append(ports, p)
			}
		}
	}
	cfg, err := q.config(f)
	if err != nil {
		return err
	}
	var tables []*matrix.Matrix
	for _, port := range ports {
		cfg.Port = port.Port
		p := cli.NewProgress(c, port.String())
		cfg.Progress = p.Report
		m, err := matrix.Compute(ctx, cfg)
		p.End()
		if err != nil {
			return err
		}
		if q.json {
			tables = append(tables, m)
			continue
		}
		if port == ports[0] {
			c.Printf("%s", matrix.Legend)
		}
		c.Printf("\n%s", m.Text(matrix.Style{Width: q.width, Title: port.String()}))
	}
	if q.json {
		if err := writeMatrix(c, f, tables); err != nil {
			return err
		}
		return q.status(c, 0, f)
	}
	for i, o := range f.Index.Excluded() {
		if i == 0 {
			c.Printf("\nNot in the table:\n")
		}
		c.Printf("  %s %s\n", o.Name, o.Why)
	}
	return q.status(c, 0, f)
}

// config returns the configuration of the matrix: its pods and addresses.
func (q *matrixQuestion) config(f *folder.Folder) (matrix.Config, error) {
	cfg := matrix.Config{Evaluator: f.Evaluator, Pods: f.Index.Endpoints()}
	if !q.all {
		cfg.Partition = probe.NewPartition(f.World)
	}
	var err error
	if len(q.pods) > 0 {
		if cfg.Pods, err = f.Index.FindAll(q.pods...); err != nil {
			return cfg, err
		}
		for _, p := range cfg.Pods {
			if p.Endpoint.Name == "" {
				return cfg, fmt.Errorf("--pods: %s is not a pod to which policy applies", p.Name)
			}
		}
	}
	if cfg.Others, err = addresses("external", q.external); err != nil {
		return cfg, err
	}
	if len(cfg.Pods) == 0 {
		return cfg, fmt.Errorf(
			"no pods that policy applies to: they need a node (spec.nodeName) and an address (status.podIPs)",
		)
	}
	return cfg, nil
}

// parsePorts reads the ports of a repeated flag.
func parsePorts(command string, list texts) ([]probe.PortGroup, error) {
	var ports []probe.PortGroup
	for _, text := range list {
		p, err := probe.ParsePort(text)
		if err != nil {
			return nil, cli.Usagef("%s: --port: %w", command, err)
		}
		ports = append(ports, probe.PortGroup{Port: p, Last: p.Number, Mentioned: true})
	}
	return ports, nil
}

// addresses reads the addresses of a repeated flag.
func addresses(name string, list texts) ([]probe.Party, error) {
	index := probe.NewIndex(nil)
	var out []probe.Party
	for _, text := range list {
		found, err := index.Find(text)
		if err != nil {
			return nil, cli.Usagef("--%s: %q is not an address", name, text)
		}
		out = append(out, found...)
	}
	return out, nil
}

// matrixCell is the JSON form of a pair of parties.
type matrixCell struct {
	From string          `json:"from"`
	To   string          `json:"to"`
	Port string          `json:"port"`
	IPv4 verdict.Outcome `json:"ipv4,omitempty"`
	IPv6 verdict.Outcome `json:"ipv6,omitempty"`
}

// notJudged is the JSON form of a pod to which policy does not apply.
type notJudged struct {
	Pod string `json:"pod"`
	Why string `json:"why"`
}

// writeMatrix writes the JSON form, cell by cell, because there may be millions of cells.
func writeMatrix(c cli.Console, f *folder.Folder, tables []*matrix.Matrix) error {
	out := bufio.NewWriter(c.Out)
	head := struct {
		NotJudged []notJudged `json:"notJudged"`
		Rejected  []string    `json:"rejected"`
	}{[]notJudged{}, rejections(f)}
	for _, o := range f.Index.Excluded() {
		head.NotJudged = append(head.NotJudged, notJudged{o.Name, o.Why})
	}
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	_, _ = out.Write(text[:len(text)-1])
	_, _ = out.WriteString(`,"cells":[`)
	separator := "\n"
	for _, m := range tables {
		err := m.Each(func(from, to probe.Party, cell matrix.Cell) error {
			text, err := json.Marshal(matrixCell{from.Name, to.Name, m.Port.String(), cell.IPv4, cell.IPv6})
			_, _ = out.WriteString(separator)
			_, _ = out.Write(text)
			separator = ",\n"
			return err
		})
		if err != nil {
			return err
		}
	}
	_, _ = out.WriteString("\n]}\n")
	return out.Flush()
}
