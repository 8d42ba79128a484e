// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wayleave/wayleave/examples/internal/fence"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// announcerTest runs an announcer of a Node with another annotation.
type announcerTest struct {
	*announcer
	client *fake.Clientset
	log    *fence.Log
	// patches counts requests, which fail with err.
	patches int
	err     error
}

func newAnnouncerTest(t *testing.T) *announcerTest {
	a := &announcerTest{log: fence.NewLog(), client: fake.NewClientset(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"other": "kept"}},
	})}
	a.client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		a.log.Cross()
		a.patches++
		return a.err != nil, nil, a.err
	})
	a.announcer = newAnnouncer(a.client, "n1", slog.New(slog.NewTextHandler(a.log, nil)))
	return a
}

func (a *announcerTest) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// after waits for a time of the bubble, and returns the annotations.
func (a *announcerTest) after(t *testing.T, d time.Duration) map[string]string {
	t.Helper()
	a.log.Cross()
	time.Sleep(d) // the clock of the bubble
	synctest.Wait()
	n, err := a.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	require.NoError(t, err)
	return n.Annotations
}

// with returns the annotations with keys.
func with(keys string) map[string]string {
	return map[string]string{"other": "kept", convert.AnnotationWireguardKeys: keys}
}

// The latest keys are written at once. Nothing is written before there are keys.
func TestAnnounceLastKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnnouncerTest(t)
		a.start(t)
		require.Equal(t, map[string]string{"other": "kept"}, a.after(t, time.Hour))
		require.Zero(t, a.patches)
		a.set("one:51820")
		a.set("two:51820")
		require.Equal(t, with("two:51820"), a.after(t, 0))
		a.set("two:51820:rotating")
		require.Equal(t, with("two:51820:rotating"), a.after(t, announcePause))
		require.NoError(t, a.problem())
		require.Contains(t, a.log.String(), "keys=two:51820:rotating")
	})
}

// If another process removes the annotation, it is written again.
func TestAnnounceAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnnouncerTest(t)
		a.start(t)
		a.set("one:51820")
		require.Equal(t, with("one:51820"), a.after(t, announcePause))
		_, err := a.client.CoreV1().Nodes().Update(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"other": "new"}},
		}, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"other": "new"}, a.after(t, announceAgain-announcePause))
		require.Equal(t, "one:51820", a.after(t, announceAgain*2/10+2*announcePause)[convert.AnnotationWireguardKeys])
		require.Equal(t, 2, a.patches)
		require.Equal(t, 1, strings.Count(a.log.String(), "announced the WireGuard keys"))
	})
}

// A failure is logged once, and tried again with growing pauses. Then the last keys are written.
func TestAnnounceAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAnnouncerTest(t)
		a.err = errors.New("refused")
		a.start(t)
		a.set("one:51820")
		a.after(t, 10*time.Minute)
		require.EqualError(t, a.problem(), "kube: patch Node n1: refused")
		require.Equal(t, 1, strings.Count(a.log.String(), "cannot be announced"))
		require.Greater(t, a.patches, 10)
		require.Less(t, a.patches, 20)
		a.err = nil
		require.Equal(t, with("one:51820"), a.after(t, maxBackoff*12/10))
		require.NoError(t, a.problem())
	})
}

// The other annotations stay. A Node that does not exist has no keys.
func TestWithdrawWireguard(t *testing.T) {
	a := newAnnouncerTest(t)
	require.NoError(t, a.patch(t.Context(), "one:51820"))
	api := &API{keys: a.announcer}
	require.NoError(t, api.WithdrawWireguard(t.Context()))
	n, err := a.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, with("none"), n.Annotations)
	a.err = apierrors.NewNotFound(corev1.Resource("nodes"), "n1")
	require.NoError(t, api.WithdrawWireguard(t.Context()))
	a.err = errors.New("refused")
	require.EqualError(t, api.WithdrawWireguard(t.Context()), "kube: patch Node n1: refused")
}
