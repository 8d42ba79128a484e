// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/wayleave/wayleave/dataplane/nft/flows"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/examples/agent/internal/metrics"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/agent.md")
	require.NoError(t, err)
	return string(text)
}

// The page has every setting with its default, every command and every metric, and no other.
func TestThePageIsComplete(t *testing.T) {
	text := page(t)
	s := settings.Defaults()
	s.Node = ""
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	settings.Declare(flags, &s)
	count := 0
	flags.VisitAll(func(f *flag.Flag) {
		count++
		value := "`" + f.DefValue + "`"
		switch {
		case f.Name == "node":
			value = "host name"
		case f.DefValue == "":
			value = ""
		}
		require.Contains(t, text, strings.ReplaceAll("| `"+f.Name+"` | "+value+" | ", "|  |", "| |"))
		if in := strings.Contains(text, "| `"+f.Name+"` |"); in {
			_, err := settings.Resolve(settings.Layer{
				Source: "datastore", Datastore: true, Values: map[string]string{f.Name: value},
			})
			row := text[strings.Index(text, "| `"+f.Name+"` |"):]
			row, _, _ = strings.Cut(row, "\n")
			require.Equal(t, strings.HasSuffix(row, "| no |"), err != nil &&
				strings.Contains(err.Error(), "cannot be set in the datastore"), row)
		}
	})
	_, rest, _ := strings.Cut(text, "| key | default |")
	rest, _, _ = strings.Cut(rest, "\n\n")
	require.Equal(t, count, strings.Count(rest, "\n| `"))

	for _, c := range commands() {
		require.Contains(t, text, c.Name)
	}
	registry, err := metrics.New(func() metrics.Snapshot {
		return metrics.Snapshot{Store: &metrics.Store{}, Kubernetes: &kubernetes.Status{
			Kinds: []kubernetes.KindStatus{{Kind: "pods"}},
		}, Flows: &metrics.Flows{Totals: map[flows.Decision]flows.Counts{{}: {}}}}
	})
	require.NoError(t, err)
	families, err := registry.Gather()
	require.NoError(t, err)
	own := 0
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "wayleave_") {
			own++
			require.Regexp(t, "\\| `"+f.GetName()+"(\\{[\\w,]+\\})?` \\| "+strings.ToLower(f.GetType().String())+" \\|",
				text)
		}
	}
	require.Equal(t, own, strings.Count(text, "| `wayleave_"))
}

// requireValid requires that the agent accepts a command line.
func requireValid(t *testing.T, args []string) {
	t.Helper()
	ran := false
	program := cli.Program{Name: "agent", Commands: commands()}
	for i, c := range program.Commands {
		prepare := c.Prepare
		program.Commands[i].Prepare = func(flags *flag.FlagSet) cli.Action {
			prepare(flags)
			return func(context.Context, cli.Console, []string) error {
				ran = true
				return nil
			}
		}
	}
	var errs bytes.Buffer
	require.Zero(t, program.Run(t.Context(), cli.Console{Out: io.Discard, Err: &errs}, args), errs.String())
	require.True(t, ran)
}

// deployed returns the objects in a file of the folder deploy, decoded as Kubernetes decodes them:
// an unknown field is an error.
func deployed(t *testing.T, name string) (objects []metav1.Object) {
	t.Helper()
	file, err := os.Open("deploy/" + name)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	documents := yaml.NewDecoder(file)
	for {
		var object map[string]any
		if err := documents.Decode(&object); errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		data, err := json.Marshal(object)
		require.NoError(t, err)
		typed, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(
			object["apiVersion"].(string), object["kind"].(string),
		))
		require.NoError(t, err)
		strict := json.NewDecoder(bytes.NewReader(data))
		strict.DisallowUnknownFields()
		require.NoError(t, strict.Decode(typed))
		objects = append(objects, typed.(metav1.Object))
	}
}

// only returns the one object of a type with a name.
func only[T metav1.Object](t *testing.T, objects []metav1.Object, name string) (found T) {
	t.Helper()
	count := 0
	for _, o := range objects {
		if typed, ok := o.(T); ok && o.GetName() == name {
			found = typed
			count++
		}
	}
	require.Equal(t, 1, count, name)
	return found
}

// checkDaemonSet requires that the agent accepts the command lines of a DaemonSet.
func checkDaemonSet(t *testing.T, set *appsv1.DaemonSet) {
	t.Helper()
	pod := set.Spec.Template.Spec
	require.Equal(t, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
	// Variables of a Service "wayleave" would be unknown settings.
	require.Equal(t, new(bool), pod.EnableServiceLinks)
	require.True(t, pod.HostNetwork)
	require.Equal(t, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, pod.Tolerations)
	container := pod.Containers[0]
	for _, c := range append(pod.InitContainers, container) {
		requireValid(t, c.Args)
		for _, m := range c.VolumeMounts {
			require.True(t, slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }))
		}
		var environ []string
		for _, v := range c.Env {
			environ = append(environ, v.Name+"=x")
		}
		_, err := settings.Resolve(settings.Environment(environ))
		require.NoError(t, err)
	}
	// Other users cannot flood the socket. The command reports a timeout itself.
	probe := container.LivenessProbe
	require.NotNil(t, probe.Exec)
	require.Equal(t, []string{"/agent", "health"}, probe.Exec.Command)
	requireValid(t, probe.Exec.Command[1:])
	require.Greater(t, time.Duration(probe.TimeoutSeconds)*time.Second, answerTimeout)
	// A flood of connections to http-address delays its answers.
	require.Greater(t, container.ReadinessProbe.TimeoutSeconds, int32(1))
}

// Kubernetes accepts the DaemonSet in the folder deploy, and the agent accepts its command line.
func TestDaemonSet(t *testing.T) {
	objects := deployed(t, "daemonset.yaml")
	require.Len(t, objects, 3)
	checkDaemonSet(t, only[*appsv1.DaemonSet](t, objects, "wayleave-agent"))
}

// The agent accepts the command lines of the unit that is deployed.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile("deploy/wayleave-agent.service")
	require.NoError(t, err)
	unit := strings.ReplaceAll(string(text), "\\\n", "") // systemd.syntax(7)
	_, line, ok := strings.Cut(unit, "\nExecStart=/usr/local/bin/wayleave-agent ")
	require.True(t, ok)
	line, _, _ = strings.Cut(line, "\n")
	requireValid(t, strings.Fields(line))
	_, line, ok = strings.Cut(unit, "\nExecReload=/usr/local/bin/wayleave-agent ")
	require.True(t, ok)
	line, _, _ = strings.Cut(line, "\n")
	requireValid(t, strings.Fields(line))
}

// systemd accepts the unit that is deployed.
func TestSystemdAcceptsUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		nstest.Skip(t, "needs the command systemd-analyze (package systemd)")
	}
	text, err := os.ReadFile("deploy/wayleave-agent.service")
	require.NoError(t, err)
	// The binary must exist to be executable: use this test's binary.
	self, err := os.Executable()
	require.NoError(t, err)
	unit := t.TempDir() + "/wayleave-agent.service"
	require.NoError(t,
		os.WriteFile(unit, bytes.ReplaceAll(text, []byte("/usr/local/bin/wayleave-agent"), []byte(self)), 0o600))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}
