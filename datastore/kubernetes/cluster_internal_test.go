// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Concurrent checks of all kinds send two queries: one for the first caller, and one for all others
// after they have called. Callers of one query also share its error.
func TestConcurrentClusterChecksShareAQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queries atomic.Int64
		var answer error
		release := make(chan struct{})
		client := fake.NewClientset()
		client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			queries.Add(1)
			<-release
			return true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{UID: "a"}}, answer
		})
		c := &cluster{client: client}
		checkAtOnce := func(ctx context.Context) (errs []error) {
			errs = make([]error, len(kinds()))
			var checks sync.WaitGroup
			for i := range errs {
				checks.Go(func() { errs[i] = c.check(ctx) })
			}
			for range 2 {
				synctest.Wait()
				release <- struct{}{}
			}
			checks.Wait()
			return errs
		}
		for _, err := range checkAtOnce(t.Context()) {
			require.NoError(t, err)
		}
		require.Equal(t, int64(2), queries.Load())
		answer = errors.New("overloaded")
		for _, err := range checkAtOnce(t.Context()) {
			require.ErrorIs(t, err, answer)
		}
		require.Equal(t, int64(4), queries.Load())

		// A caller whose context ends does not wait for the query of another.
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { _ = c.check(t.Context()) }()
		synctest.Wait()
		go func() { ended <- c.check(ctx) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, int64(5), queries.Load())
		release <- struct{}{}
	})
}

// A check that begins during a query does not use its response, which can be that of an earlier
// server.
func TestClusterCheckUsesNoEarlierResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uid := types.UID("a")
		release := make(chan struct{})
		client := fake.NewClientset()
		client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			answer := uid
			<-release
			return true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{UID: answer}}, nil
		})
		c := &cluster{client: client}
		before, after := make(chan error, 1), make(chan error, 1)
		go func() { before <- c.check(t.Context()) }()
		synctest.Wait()
		uid = "b" // another cluster from now on
		go func() { after <- c.check(t.Context()) }()
		synctest.Wait()
		release <- struct{}{}
		require.NoError(t, <-before)
		release <- struct{}{}
		require.ErrorIs(t, <-after, errOtherCluster)
	})
}
