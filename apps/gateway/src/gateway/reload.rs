//! Reloading: all of a new configuration takes effect, or nothing.
//!
//! Everything that can fail or wait comes first and changes nothing that runs: new queues are created, routes and
//! processors are prepared, tokens are read. Then all of it takes effect in one step that cannot fail.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};

use super::{Gateway, access, client, editable, lock, prepared_route::PreparedRoute};
use crate::{
    access::Access,
    config::{Config, Reload, RouteConfig},
    endpoint::EndpointClient,
    poison_retry::PreparedProcessors,
    route::{Route, paused_by, paused_setting},
};

/// A reload that cannot fail any more.
struct PreparedReload {
    /// Set if the allowed addresses have changed.
    client: Option<EndpointClient>,
    processors: PreparedProcessors,
    /// Set if tokens have changed.
    access: Option<Arc<Access>>,
    /// New routes with the reason of their stored pause, and the successors of routes that have changed.
    routes: Vec<(PreparedRoute, Option<&'static str>)>,
}

impl Gateway {
    /// Applies the changes of another configuration, as far as possible without a restart. Routes that are removed or
    /// changed finish their messages in flight; the others are not disturbed. Dropping the future changes nothing, or
    /// everything has changed.
    ///
    /// # Errors
    ///
    /// If a new queue or route is unavailable. Then nothing has changed: not one route, token or rule.
    pub async fn reload(&self, new: Config) -> Result<Reload> {
        let _turn = self.reloading.lock().await;
        let reload = lock(&self.config).differences(&new);
        let prepared = self.prepare(&reload, &new).await?;
        let gone = reload.routes_removed.iter().map(|name| name.as_str());
        self.switch(prepared, gone.collect(), new);
        self.warn_of_unconfigured().await;
        Ok(reload)
    }

    /// Starts the routes and processors of the first configuration.
    pub(super) async fn start_routes(&self, config: &Config) -> Result<()> {
        let client = lock(&self.client).clone();
        let mut routes = Vec::new();
        for route in &config.routes {
            routes.push((self.prepare_route(route, &client)?, self.stored_pause(route).await?));
        }
        let processors =
            self.app.poison_retries.prepare(&self.app, &config.poison_retries, &client)?;
        let prepared = PreparedReload { client: None, processors, access: None, routes };
        self.switch(prepared, Vec::new(), config.clone());
        Ok(())
    }

    /// Does everything that can fail. Changes nothing that runs.
    async fn prepare(&self, reload: &Reload, new: &Config) -> Result<PreparedReload> {
        for queue in &reload.queues_added {
            match queue.as_str().split_once('/') {
                None => self.app.bezoar.admin().provision(queue).await?,
                Some((name, _)) if self.app.brokers.contains_key(name) => (),
                Some((name, _)) => bail!("transports.{name} requires a restart"),
            }
        }
        let running = lock(&self.client).clone();
        let client = reload.network_changed.then(|| client(new));
        let processors =
            self.prepare_processors(reload, new, client.as_ref().unwrap_or(&running))?;
        let is_new = |route: &&RouteConfig| {
            reload.network_changed || !reload.routes_unchanged.contains(&route.name)
        };
        let mut routes = Vec::new();
        for route in new.routes.iter().filter(is_new) {
            let paused = match reload.routes_added.contains(&route.name) {
                true => self.stored_pause(route).await?,
                false => None, // as its predecessor is when they change
            };
            routes.push((self.prepare_route(route, client.as_ref().unwrap_or(&running))?, paused));
        }
        let access = match reload.tokens_changed {
            true => Some(access(new)?.0),
            false => None,
        };
        Ok(PreparedReload { client, processors, access, routes })
    }

    /// Prepares the processors of poison queues that have changed.
    fn prepare_processors(
        &self,
        reload: &Reload,
        new: &Config,
        client: &EndpointClient,
    ) -> Result<PreparedProcessors> {
        let after = lock(&self.config).reloaded(new.clone());
        let changed = after.poison_retries.iter().filter(|it| {
            reload.network_changed || reload.poison_retries_changed.contains(&it.queue)
        });
        self.app.poison_retries.prepare(&self.app, changed, client)
    }

    /// Lets a prepared configuration take effect, all of it at once.
    fn switch(&self, prepared: PreparedReload, removed: Vec<&str>, new: Config) {
        let PreparedReload { client, processors, access, routes } = prepared;
        // Without what takes effect only after a restart, such as a poison queue that is not worked on yet.
        let (editable, after) = (editable(&new), lock(&self.config).reloaded(new));
        let ended = self.change(|live| {
            live.access = access.unwrap_or_else(|| live.access.clone());
            live.queues = after.all_queues();
            live.editable = editable;
            let mut ended: Vec<_> =
                removed.into_iter().filter_map(|name| live.routes.remove(name)).collect();
            for (route, stored) in routes {
                let name = route.name().to_owned();
                let old = live.routes.remove(&name);
                let paused = pause(&route, stored, old.as_deref());
                ended.extend(old);
                live.routes.insert(name, route.start(paused));
            }
            ended
        });
        self.end(ended);
        if let Some(client) = client {
            *lock(&self.client) = client;
        }
        self.app.poison_retries.replace(&self.app, processors);
        self.app.intakes.follow(&self.app, &after);
        *lock(&self.config) = after;
    }

    /// Drains routes. Their messages in flight may take as long as they need: the successors do not wait, because every
    /// message is leased to only one of them.
    fn end(&self, routes: Vec<Arc<Route>>) {
        let mut ending = lock(&self.ending);
        ending.retain(|route| !route.has_stopped());
        ending.extend(routes.into_iter().inspect(|route| route.drain()));
    }

    /// The reason of a pause that was stored before a restart or while the route was not configured.
    async fn stored_pause(&self, route: &RouteConfig) -> Result<Option<&'static str>> {
        let name = route.name.as_str();
        let setting = self.app.catalogue.setting(&paused_setting(name)).await;
        let setting =
            setting.with_context(|| format!("cannot read whether route {name} is paused"))?;
        Ok(setting.as_deref().map(paused_by))
    }

    /// Warns of messages in queues that are no longer configured, which would otherwise be forgotten.
    pub(super) async fn warn_of_unconfigured(&self) {
        let Ok(stored) = self.app.bezoar.admin().queues().await else { return };
        let configured = self.app.queues();
        for queue in stored.iter().filter(|queue| !configured.contains(*queue)) {
            let Ok(depth) = self.app.bezoar.admin().depth(queue).await else { continue };
            let waiting: u64 =
                [depth.ready, depth.delayed, depth.leased].into_iter().flatten().sum();
            let dead = depth.dead.unwrap_or_default();
            if waiting + dead > 0 {
                tracing::warn!(%queue, waiting, dead, "queue is no longer configured but still holds messages");
            }
        }
    }
}

/// Why a route starts paused: as its predecessor was paused by somebody, as was stored, or as configured.
fn pause(
    route: &PreparedRoute,
    stored: Option<&'static str>,
    old: Option<&Route>,
) -> Option<&'static str> {
    let configured = route.is_paused_by_configuration().then_some("paused by configuration");
    old.and_then(Route::stored_pause).or(stored).or(configured)
}
