// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

// formatJSON is the output format that is not text.
const formatJSON = "json"

// output has the flags of commands that send a request to the agent: how to find the agent, and how
// to print its answer.
type output struct {
	socket, format string
	timeout        time.Duration
}

// The default time limits for an answer of the agent. A plan takes longer than other answers.
const (
	answerTimeout = 10 * time.Second
	planTimeout   = 2 * time.Minute
)

// declare declares the flags of a command that sends a request to the agent.
func (o *output) declare(flags *flag.FlagSet) {
	o.declareTimeout(flags, answerTimeout)
	o.declareSocket(flags)
}

func (o *output) declareSocket(flags *flag.FlagSet) {
	socket := cmp.Or(os.Getenv("WAYLEAVE_SOCKET"), settings.DefaultSocket)
	flags.StringVar(&o.socket, "socket", socket, "`PATH` of the socket that the agent listens at")
	o.declareFormat(flags)
}

func (o *output) declareTimeout(flags *flag.FlagSet, standard time.Duration) {
	flags.DurationVar(&o.timeout, "timeout", standard, "wait at most `TIME` for the agent's answer; 0: no limit")
}

func (o *output) declareFormat(flags *flag.FlagSet) {
	flags.Func("o", "`FORMAT` of the output: text or json", func(text string) error {
		if text != formatJSON && text != "text" {
			return fmt.Errorf("want text or json")
		}
		o.format = text
		return nil
	})
}

func (o *output) client() *api.Client { return api.NewClient(o.socket).WithTimeout(o.timeout) }

// print writes a value as JSON, or the text.
func (o *output) print(c cli.Console, value any, text string) error {
	if o.format == formatJSON {
		encoder := json.NewEncoder(c.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}
	c.Printf("%s", text)
	return nil
}

// table formats rows under a heading, for a terminal of the given width.
func table(width int, head string, rows [][]string) string {
	return cli.Table{Head: strings.Fields(head), Rows: rows}.Text(width)
}

// get sends a GET request to the agent, and shows progress.
func get[T any](ctx context.Context, c cli.Console, o output, path string) (T, error) {
	return send[T](ctx, c, o, http.MethodGet, path, nil)
}

// send sends a request to the agent, and shows progress.
func send[T any](ctx context.Context, c cli.Console, o output, method, path string, body any) (T, error) {
	progress := cli.NewProgress(c, "waiting for the agent")
	defer progress.End()
	return api.Send[T](ctx, o.client(), method, path, body)
}

// listCommand returns a command that sends a GET request and prints the answer.
func listCommand[T any](
	name, summary, about, path string, text func(width int, value T) string,
) cli.Command {
	return cli.Command{
		Name: name, Summary: summary,
		About:    about + " With -o json, the command prints the agent's answer without a change.",
		Examples: []string{name, name + " -o json"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var o output
			o.declare(flags)
			return func(ctx context.Context, c cli.Console, _ []string) error {
				value, err := get[T](ctx, c, o, path)
				if err != nil {
					return err
				}
				return o.print(c, value, text(c.Width(), value))
			}
		},
	}
}

func statusCommand() cli.Command {
	const about = "Shows the state of the running agent: readiness, sources, counts, last changes and faults."
	const summary = "show the state of the agent"
	return listCommand("status", summary, about, "/v1/status", func(width int, s api.Status) string {
		var rows [][]string
		line := func(name, format string, args ...any) {
			rows = append(rows, []string{fmt.Sprintf("%-10s", name), fmt.Sprintf(format, args...)})
		}
		ready := "yes"
		if !s.Ready {
			ready = "no"
		}
		line("node", "%s, since %s", s.Node, s.Started.Format(time.RFC3339))
		line("version", "%s", s.Version)
		line("ready", "%s", ready)
		if len(s.Waiting) > 0 {
			line("waiting for", "%s", strings.Join(s.Waiting, ", "))
		}
		for _, name := range slices.Sorted(maps.Keys(s.Unreadable)) {
			line("unreadable", "%s: %s", name, s.Unreadable[name])
		}
		if s.Store != nil {
			line("etcd", "%s", storeText(s.Store))
		}
		for _, text := range kubernetesTexts(s.Kubernetes) {
			line("kubernetes", "%s", text)
		}
		for _, text := range wireguardTexts(s.Wireguard) {
			line("wireguard", "%s", text)
		}
		line("endpoints", "%d up, %d pending, %d down, %d failed", s.Endpoints["up"], s.Endpoints["pending"],
			s.Endpoints["down"], s.Endpoints["failed"])
		line("objects", "%d, %d rejected so far", s.Objects, s.Rejected)
		for _, doubt := range s.Doubts {
			line("in doubt", "%s", doubt.Problem)
		}
		line("applies", "%d, %d failed; the last took %s; %d batches wait", s.Attempts, s.Failed, s.LastDuration,
			s.Queue)
		line("drift", "%d seen, %d repaired", s.Drifts, s.Repairs)
		if s.Policy != nil {
			line("policy", "%s", policyText(s.Policy))
			for _, group := range s.Policy.Chains {
				line("as chains", "%s", group)
			}
		}
		for _, feature := range s.Kernel {
			line("kernel", "%s", feature)
		}
		for _, dispute := range s.Disputes {
			line("disputed", "%s", dispute)
		}
		line("restarts", "%d", s.Restarts)
		if s.LastError != "" {
			line("failing", "%d times: %s", s.Failures, s.LastError)
		}
		switch {
		case s.RecordingError != "":
			line("recording", "has ended: %s", s.RecordingError)
		case s.Recording != "":
			line("recording", "%s", s.Recording)
		}
		for _, problem := range s.Settings {
			line("settings", "%s", problem)
		}
		return cli.Table{Rows: rows}.Text(width)
	})
}

// policyText returns the cost of policy and its limits in one line.
func policyText(p *api.PolicyCost) string {
	text := fmt.Sprintf("cost %d of %d; largest group %d of %d", p.Cost, p.Limit, p.LargestCost, p.GroupLimit)
	if p.LargestCost > 0 {
		text += ", " + p.Largest
	}
	if p.ChainGroups > 0 {
		text += fmt.Sprintf("; %d groups over a limit are chains", p.ChainGroups)
	}
	return text
}

// notJudged describes the endpoint's traffic to which policy does not apply.
func notJudged(e api.Endpoint) string {
	if e.Unjudged == "" || e.Error != "" {
		return ""
	}
	return "not judged: " + e.Unjudged
}

func endpointsCommand() cli.Command {
	return listCommand("endpoints", "list the endpoints of this node, with state and policies",
		"Lists the endpoints of this node: whether each is in the kernel, its interface and addresses, the "+
			"policies and profiles that apply to it, and why it failed.",
		"/v1/endpoints",
		func(width int, list []api.Endpoint) string {
			var rows [][]string
			for _, e := range list {
				rows = append(rows, []string{
					e.Key.Namespace + "/" + e.Key.Name, e.State, e.Interface, strings.Join(e.Addresses, ","),
					none(strings.Join(e.Ingress, "; ")), none(strings.Join(e.Egress, "; ")),
					none(strings.Join(e.Profiles, ",")), e.Error + notJudged(e),
				})
			}
			return table(width, "ENDPOINT STATE INTERFACE ADDRESSES INGRESS EGRESS PROFILES ERROR", rows)
		})
}

// storeText returns the state of the shared store in one line.
func storeText(s *api.Store) string {
	text := fmt.Sprintf("connected; received up to revision %d, in the kernel up to %d", s.Delivered, s.Applied)
	if !s.Connected {
		text = fmt.Sprintf("not connected: %s; received up to revision %d, in the kernel up to %d",
			cmp.Or(s.Error, "has not answered yet"), s.Delivered, s.Applied)
	}
	if n := len(s.Unreadable); n > 0 {
		text += fmt.Sprintf("; %d objects cannot be read, %s the first", n, s.Unreadable[0])
	}
	return text
}

// kubernetesTexts returns the state of the Kubernetes API's kinds, in lines.
func kubernetesTexts(k *api.Kubernetes) (lines []string) {
	if k == nil {
		return nil
	}
	state := "in sync with"
	if !k.InSync {
		state = "not in sync with"
	}
	lines = append(lines, state+" "+k.Server)
	for _, kind := range k.Kinds {
		text := fmt.Sprintf("%s: %s, %d objects", kind.Kind, kind.State, kind.Objects)
		if kind.Revision != "" {
			text += ", revision " + kind.Revision
		}
		if kind.Error != "" {
			text += fmt.Sprintf("; since %s it cannot be read: %s", kind.Since.Format(time.RFC3339), kind.Error)
		}
		lines = append(lines, text)
	}
	for _, faulty := range k.Faulty {
		lines = append(lines, faulty.Object+" is not understood: "+strings.ReplaceAll(faulty.Problem, "\n", "; "))
	}
	if more := k.FaultyObjects - len(k.Faulty); more > 0 {
		lines = append(lines, fmt.Sprintf("%d more objects are not understood", more))
	}
	return lines
}

// wireguardTexts returns the keys of the node, and the problems with encryption, in lines.
func wireguardTexts(w *api.Wireguard) (lines []string) {
	if w == nil {
		return nil
	}
	for _, key := range w.Keys {
		lines = append(lines, "key "+key)
	}
	if w.Error != "" {
		lines = append(lines, "the keys cannot be announced: "+w.Error)
	}
	if w.RemovalError != "" {
		lines = append(lines, "the WireGuard objects of an earlier run stay for now: "+w.RemovalError)
	}
	return lines
}

func none(text string) string { return cmp.Or(text, "-") }

func policiesCommand() cli.Command {
	return listCommand("policies", "list the policies that are in use on this node",
		"Lists the policies that apply to endpoints of this node: the tier, the number of endpoints, and the "+
			"selector.", "/v1/policies",
		func(width int, list []api.Policy) string {
			var rows [][]string
			for _, p := range list {
				rows = append(rows, []string{p.Key.String(), p.Tier, fmt.Sprint(p.Endpoints), p.Selector})
			}
			return table(width, "POLICY TIER ENDPOINTS SELECTOR", rows)
		})
}

func setsCommand() cli.Command {
	return listCommand("sets", "list the sets of addresses that rules refer to",
		"Lists the sets of addresses (IP sets) that rules of this node refer to, with their sizes and first "+
			"members.",
		"/v1/sets?members=true",
		func(width int, list []api.Set) string {
			var rows [][]string
			for _, s := range list {
				members := s.Members[:min(3, len(s.Members))]
				if len(s.Members) > len(members) {
					members = append(slices.Clip(members), "...")
				}
				rows = append(rows, []string{
					s.ID, fmt.Sprint(s.Size), fmt.Sprint(s.Owners), s.Meaning, strings.Join(members, " "),
				})
			}
			return table(width, "SET MEMBERS OWNERS MEANING CONTENT", rows)
		})
}

func routesCommand() cli.Command {
	return listCommand("routes", "list prefixes of addresses, with their nodes",
		"Lists the prefixes of addresses in the agent's sources: the type of each, its node, the node's address, "+
			"and its pool.", "/v1/routes",
		func(width int, list []api.Route) string {
			var rows [][]string
			for _, r := range list {
				rows = append(rows, []string{r.Dst, r.Type, none(r.Node), none(r.Via), none(r.Pool)})
			}
			return table(width, "DESTINATION TYPE NODE VIA POOL", rows)
		})
}

func waitCommand() cli.Command {
	return cli.Command{
		Name: "wait", Args: "ENDPOINT", Summary: "wait until an endpoint is programmed",
		About: `Waits until the kernel has the policy and the routes of ENDPOINT (NAMESPACE/NAME). Policy and
routes are those that the sources have when the command starts. The sources may get the endpoint itself later.
If the time of --timeout is over, the command fails and prints the reason.`,
		Examples: []string{"wait shop/web", "wait shop/web --timeout 10s"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var o output
			o.declareSocket(flags)
			limit := flags.Duration("timeout", time.Minute, "wait at most `TIME`")
			return func(ctx context.Context, c cli.Console, args []string) error {
				if len(args) != 1 {
					return cli.Usagef("wait: want one ENDPOINT")
				}
				path := "/v1/wait?timeout=" + limit.String() // then the error of the agent has the reason
				o.timeout = *limit + answerTimeout
				wait := api.Wait{Endpoint: args[0]}
				if _, err := send[struct{}](ctx, c, o, http.MethodPost, path, wait); err != nil {
					return err
				}
				return o.print(c, wait, args[0]+" is programmed\n")
			}
		},
	}
}

func configCommand() cli.Command {
	return cli.Command{
		Name: "config", Summary: "show the effective settings, and where each comes from",
		About: `Shows the settings of the running agent. With --check, it needs no agent. Instead, it checks
the settings of the environment, the file and the flags, in the same way as "agent run", and reports all
problems. If a directory does not exist, this is only a warning, because "agent run" waits for it.`,
		Examples: []string{"config", "config --check --config /etc/wayleave/agent.yaml"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			declared := settings.Defaults()
			settings.Declare(flags, &declared)
			config := configFlag(flags)
			check := flags.Bool("check", false, "check the settings that an agent would use, without a running agent")
			var o output
			o.declareFormat(flags)
			o.declareTimeout(flags, answerTimeout)
			return func(ctx context.Context, c cli.Console, _ []string) error {
				if *check {
					below, above := layers(flags, *config)
					e, opened, err := checkSettings(slices.Concat(below, above))
					if err != nil {
						return err
					}
					_ = opened.close() // the clients were never used
					for _, line := range missing(e.Settings) {
						c.Errorf("%s\n", line)
					}
					return o.print(c, e.Values, configText(c.Width(), e.Values))
				}
				if o.socket = declared.Socket; o.socket == settings.DefaultSocket {
					o.socket = cmp.Or(os.Getenv("WAYLEAVE_SOCKET"), o.socket)
				}
				values, err := get[[]settings.Value](ctx, c, o, "/v1/config")
				if err != nil {
					return err
				}
				return o.print(c, values, configText(c.Width(), values))
			}
		},
	}
}

// configText returns a line for each setting: key, value and origin.
func configText(width int, values []settings.Value) string {
	var rows [][]string
	for _, v := range values {
		rows = append(rows, []string{v.Key, strconv.Quote(v.Value), v.Origin})
	}
	return cli.Table{Rows: rows}.Text(width)
}
