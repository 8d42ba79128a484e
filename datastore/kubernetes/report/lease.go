// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// The times of the Lease. Each node reads it every 30 to 66 s, so 1,000 nodes send 21 requests a
// second. The holder renews it every 30 s. If the holder fails, no node writes for about two
// minutes. That is acceptable, because nothing that it writes is urgent.
const (
	leaseDuration = 90 * time.Second
	renewDeadline = 60 * time.Second
	retryPeriod   = 30 * time.Second
)

// elect runs the election for the Lease until ctx is done.
func (r *Reporter) elect(ctx context.Context) {
	config := leaderelection.LeaderElectionConfig{
		Lock: lock{r, &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: r.cfg.LeaseNamespace, Name: r.cfg.LeaseName},
			Client:     r.cfg.Client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: r.cfg.Node},
		}},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: r.becomeLeader,
			OnStoppedLeading: func() {}, // the context of lead is done
		},
	}
	quiet := klog.NewContext(ctx, klog.Logger{}) // lock records the errors
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(config)
		if err != nil {
			r.recordResult(ctx, PartLease, err)
			return
		}
		elector.Run(quiet)
	}
}

// becomeLeader makes this node the leader until ctx is done. It schedules the Events that are due,
// and all conditions, because it is unknown which of these the last leader wrote.
func (r *Reporter) becomeLeader(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.term = ctx
	for id, o := range r.objects {
		o.condition.written = notice{}
		r.schedule(id, o)
	}
	r.cfg.Logger.Info("this node is the leader: it reports for all nodes",
		"lease", r.cfg.LeaseNamespace+"/"+r.cfg.LeaseName)
}

// lock is a lock whose requests have a timeout and whose errors are recorded.
type lock struct {
	reporter *Reporter
	resourcelock.Interface
}

func (l lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	request, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, raw, err := l.Interface.Get(request)
	if err == nil || !apierrors.IsNotFound(err) { // otherwise it is created
		l.reporter.recordResult(ctx, PartLease, err)
	}
	return found, raw, err
}

func (l lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

func (l lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l lock) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord,
	send func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	request, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := send(request, record)
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) { // another candidate was faster
		l.reporter.recordResult(ctx, PartLease, err)
	}
	return err
}
