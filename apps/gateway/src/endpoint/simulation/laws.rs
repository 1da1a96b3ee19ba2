//! The laws, with a tenth of the counts in CI and all of them in a soak.

use super::*;

const FEW: usize = 1_000;
const MANY: usize = 10_000;

fn healthy(count: usize) -> impl Iterator<Item = Nature> {
    std::iter::repeat_n(Nature::Healthy, count)
}

fn poison(count: usize) -> impl Iterator<Item = Nature> {
    std::iter::repeat_n(Nature::Poison, count)
}

/// 20 poison messages with 200 healthy ones behind them.
async fn poison_ahead(plan: &Plan) -> Report {
    let report = run(plan, at_once(poison(20).chain(healthy(200))), HOUR).await;
    println!("poison ahead, {plan:?}: {}", report.summary());
    report
}

fn poison_is_harmless(report: &Report, [first, all, dead]: [Duration; 3]) -> bool {
    let delivered = report.delivered(Nature::Healthy);
    delivered.len() == 200
        && delivered[0] <= first
        && report.last_delivery() <= all
        && report.dead(Nature::Poison).len() == 20
        && report.dead(Nature::Poison).iter().all(|at| *at <= dead)
}

const POISON_BOUNDS: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(20), MINUTE];

#[tokio::test(start_paused = true)]
async fn poison_ahead_of_healthy_messages_holds_them_up_for_seconds_only() {
    let report = poison_ahead(&Plan::default()).await;
    assert!(poison_is_harmless(&report, POISON_BOUNDS), "{}", report.summary());
    let report = poison_ahead(&Plan { concurrency: 1, ..Plan::default() }).await;
    assert!(poison_is_harmless(&report, [MINUTE, MINUTE, 3 * MINUTE]), "{}", report.summary());
}

#[tokio::test(start_paused = true)]
async fn the_controls_do_not_keep_poison_harmless() {
    for rules in [Rules::InARow, Rules::NothingCountsWhileOpen] {
        let kept = async |plan: Plan| {
            let report = run(&plan, at_once(poison(20)), HOUR).await;
            report.dead(Nature::Poison).len() == 20
        };
        assert!(!kept(Plan { rules, ..Plan::default() }).await, "{rules:?} lets poison die");
    }
    assert!(
        run(&Plan::default(), at_once(poison(20)), HOUR).await.dead(Nature::Poison).len() == 20
    );
    let report = poison_ahead(&Plan { rules: Rules::InARow, ..Plan::default() }).await;
    assert!(!poison_is_harmless(&report, POISON_BOUNDS), "{}", report.summary());
}

/// So many messages wait when the endpoint goes away for so long.
async fn outage(weather: Weather, lasts: Duration, count: usize) -> Report {
    outage_by(Rules::Evidence, weather, lasts, count).await
}

async fn outage_by(rules: Rules, weather: Weather, lasts: Duration, count: usize) -> Report {
    let plan = Plan { rules, weather: vec![(lasts, weather)], ..Plan::default() };
    let report = run(&plan, at_once(healthy(count)), lasts + HOUR).await;
    let after = report.last_delivery().saturating_sub(lasts).as_secs_f64();
    println!("{weather:?} for {lasts:?}: {}; {after:.1} s after recovery", report.summary());
    report
}

fn check_outage(report: &Report, lasts: Duration, count: usize, most_dead: usize) {
    let dead = report.dead(Nature::Healthy).len();
    assert!(dead <= most_dead, "{dead} dead: {:?}", report.reasons.first());
    assert_eq!(report.delivered(Nature::Healthy).len() + dead, count);
    let last = report.last_delivery();
    assert!(last <= lasts + MINUTE, "the last after {last:?}");
}

async fn nothing_sent_or_asked_to_wait(lasts: Duration, count: usize) {
    for weather in
        [Weather::Refused, Weather::Throttled(None), Weather::Throttled(Some(30 * SECOND))]
    {
        check_outage(&outage(weather, lasts, count).await, lasts, count, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_never_sent_and_what_asks_to_wait_kills_nothing() {
    nothing_sent_or_asked_to_wait(3 * HOUR, FEW).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes long; cargo xtask soak"]
async fn soak_what_is_never_sent_and_what_asks_to_wait_kills_nothing() {
    nothing_sent_or_asked_to_wait(24 * HOUR, MANY).await;
}

async fn proxies_answer(lasts: Duration, count: usize) {
    let report = outage(Weather::Unavailable, lasts, count).await;
    check_outage(&report, lasts, count, count / MANY);
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_503_kills_nothing() {
    proxies_answer(HOUR, FEW).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes long; cargo xtask soak"]
async fn soak_an_hour_of_503_kills_nothing() {
    proxies_answer(HOUR, MANY).await;
}

async fn everything_fails(count: usize) {
    for weather in [Weather::Failing, Weather::Hanging] {
        let report = outage(weather, 5 * MINUTE, count).await;
        check_outage(&report, 5 * MINUTE, count, (count / 100).max(20));
    }
}

#[tokio::test(start_paused = true)]
async fn five_minutes_of_500_or_timeouts_kill_a_handful() {
    everything_fails(FEW).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes long; cargo xtask soak"]
async fn soak_five_minutes_of_500_or_timeouts_kill_a_handful() {
    everything_fails(MANY).await;
}

/// Arrivals that last longer than the trouble, so that there is something to deliver in it.
async fn partly(weather: Weather, lasts: Duration, count: usize) -> Report {
    let plan = Plan { weather: vec![(lasts, weather)], ..Plan::default() };
    let pause = lasts / u32::try_from(count).unwrap();
    let report = run(&plan, every(pause, healthy(count)), lasts + HOUR).await;
    println!("{weather:?} for {lasts:?}: {}", report.summary());
    report
}

async fn shedding_and_rolling(count: usize) {
    let lasts = 10 * MINUTE;
    let report = partly(Weather::Shedding(0.5), lasts, count).await;
    check_outage(&report, lasts, count, count / MANY);
    let report = outage(Weather::Shedding(0.5), lasts, count).await;
    check_outage(&report, lasts, count, count / MANY);
    let report = partly(Weather::Rolling(1.0 / 3.0), lasts, count).await;
    check_outage(&report, lasts, count, 0);
}

#[tokio::test(start_paused = true)]
async fn load_shedding_and_a_rolling_deploy_kill_nothing() {
    shedding_and_rolling(FEW).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes long; cargo xtask soak"]
async fn soak_load_shedding_and_a_rolling_deploy_kill_nothing() {
    shedding_and_rolling(MANY).await;
}

#[tokio::test(start_paused = true)]
async fn the_controls_lose_messages_in_an_outage() {
    let report = outage_by(Rules::InARow, Weather::Refused, HOUR, 1).await;
    assert_eq!(report.dead(Nature::Healthy).len(), 1, "while it is closed everything counts");
    let report = outage(Weather::Refused, HOUR, 1).await;
    check_outage(&report, HOUR, 1, 0);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_credential_costs_a_handful_and_the_rest_arrives() {
    let report = outage(Weather::Unauthorized, HOUR, FEW).await;
    check_outage(&report, HOUR, FEW, 5);
}

/// One message in so many makes the endpoint drop the connection.
fn droppers(count: usize, one_in: usize) -> impl Iterator<Item = Nature> {
    (0..count).map(move |number| match number % one_in {
        rest if rest == one_in / 2 => Nature::Dropper,
        _ => Nature::Healthy,
    })
}

fn only_droppers_are_dead(report: &Report, count: usize, one_in: usize) {
    assert_eq!(report.dead(Nature::Healthy).len(), 0, "{}", report.summary());
    assert_eq!(report.dead(Nature::Dropper).len(), count / one_in, "{}", report.summary());
    assert_eq!(report.delivered(Nature::Healthy).len(), count - count / one_in);
}

/// How many of the others are delivered in the time in which a run without droppers delivers all.
async fn droppers_among(plan: &Plan, pause: Duration, count: usize, one_in: usize) -> f64 {
    let arrivals = every(pause, droppers(count, one_in));
    let report = run(plan, arrivals, 24 * HOUR).await;
    only_droppers_are_dead(&report, count, one_in);
    let without = run(plan, every(pause, healthy(count - count / one_in)), 24 * HOUR).await;
    let in_time = |at: &&Duration| **at <= without.last_delivery();
    let delivered = report.delivered(Nature::Healthy).iter().filter(in_time).count();
    let ratio = delivered as f64 / without.delivered(Nature::Healthy).len() as f64;
    println!(
        "one dropper in {one_in} of {count}, {pause:?} apart, restart {:?}: {}; throughput {ratio:.2}",
        plan.restart,
        report.summary()
    );
    ratio
}

async fn droppers_die(count: usize) {
    let busy = Duration::from_millis(50);
    let burst = droppers_among(&Plan::default(), Duration::ZERO, count, 1_000).await;
    assert!(burst >= 0.9, "{burst}");
    for restart in [None, Some(SECOND)] {
        let plan = Plan { restart, ..Plan::default() };
        let ratio = droppers_among(&plan, busy, count, 1_000).await;
        assert!(ratio >= 0.9, "{ratio} with restart {restart:?}");
        droppers_among(&plan, Duration::ZERO, 10, 10).await;
        let alone = run(&plan, at_once([Nature::Dropper]), HOUR).await;
        only_droppers_are_dead(&alone, 1, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_that_crash_the_endpoint_die_and_no_others() {
    droppers_die(FEW).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes long; cargo xtask soak"]
async fn soak_messages_that_crash_the_endpoint_die_and_no_others() {
    droppers_die(MANY).await;
}

/// An endpoint that takes messages without acknowledging them must not get each of them again and again.
async fn never_acknowledged(lasts: Duration, count: usize) {
    let report = outage(Weather::Unacknowledged, lasts, count).await;
    println!("sent at most {} times", report.most_sent());
    assert_eq!(report.dead(Nature::Healthy).len(), 0, "{:?}", report.reasons.first());
    assert_eq!(report.delivered(Nature::Healthy).len(), count);
    assert!(report.most_sent() <= 3, "{} times", report.most_sent());
    let last = report.last_delivery();
    assert!(last <= lasts + 6 * MINUTE, "the last after {last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_day_without_acknowledgements_kills_nothing_and_sends_nothing_four_times() {
    never_acknowledged(24 * HOUR, FEW).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes long; cargo xtask soak"]
async fn soak_a_day_without_acknowledgements_kills_nothing_and_sends_nothing_four_times() {
    never_acknowledged(24 * HOUR, MANY).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_acknowledgement_that_counted_like_a_500_would_send_messages_four_times() {
    let report = outage(Weather::Failing, 6 * HOUR, FEW).await;
    assert_eq!(report.most_sent(), 4);
    assert!(report.dead(Nature::Healthy).len() > 20, "{}", report.summary());
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_never_acknowledged_hold_up_nobody_for_long() {
    let mute = std::iter::repeat_n(Nature::Mute, 20);
    let report = run(&Plan::default(), at_once(mute.chain(healthy(200))), HOUR).await;
    println!("20 mute ahead: {}", report.summary());
    assert_eq!(report.delivered(Nature::Healthy).len(), 200);
    assert!(report.last_delivery() <= MINUTE, "{}", report.summary());
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_never_acknowledged_die_while_others_succeed() {
    let mixed = (0..FEW).map(|number| match number % 100 {
        50 => Nature::Mute,
        _ => Nature::Healthy,
    });
    let report = run(&Plan::default(), every(Duration::from_millis(50), mixed), HOUR).await;
    println!("1 in 100 mute: {}", report.summary());
    assert_eq!(report.dead(Nature::Mute).len(), FEW / 100);
    assert_eq!(report.delivered(Nature::Healthy).len(), FEW - FEW / 100);
    assert_eq!(report.most_sent(), 4);
}
