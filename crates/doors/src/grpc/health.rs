//! gRPC's health checks: balancers ask them whom to send calls to.

use std::rc::Rc;

use super::answers::Answers;
use super::call::Context;
use super::messages::{Charged, Messages};
use super::proto::health::health_check_response::ServingStatus;
use super::proto::health::{HealthCheckRequest, HealthCheckResponse};
use super::status::{Code, Status};
use crate::bounds::HEARING;
use crate::drain::Stage;
use crate::failure::Failure;

/// The services whose health is asked for; the empty name is the whole server.
const SERVICES: [&str; 3] = ["", "stargate.Stargate", "grpc.health.v1.Health"];

/// How it is now.
pub async fn check(
    context: &Context,
    asked: &Charged<HealthCheckRequest>,
) -> Result<HealthCheckResponse, Status> {
    match SERVICES.contains(&asked.message.service.as_str()) {
        true => Ok(response(serving(context.caller.state.stage()))),
        false => Err(Status::new(Code::NotFound, "There is no such service")),
    }
}

/// How it is now, and whenever that changes.
pub async fn watch(mut messages: Messages, context: Rc<Context>, answers: Rc<Answers>) -> Result<(), Status> {
    let request = messages.next::<HealthCheckRequest>().await?;
    let request = request.ok_or_else(|| Status::new(Code::Internal, "The call has no message"))?;
    drop(messages);
    let state = &context.caller.state;
    if !SERVICES.contains(&request.message.service.as_str()) {
        answers.send(&response(ServingStatus::ServiceUnknown)).await?;
        state.reached(Stage::Draining).await;
        return Err(Failure::Stopping.into());
    }
    answers.send(&response(serving(state.stage()))).await?;
    if state.stage() == Stage::Open {
        state.reached(Stage::Draining).await;
        match state.stage() {
            // The node goes on in another process: who turned from it would fail calls that have to wait a moment. The connection is
            // told first that it goes.
            Stage::HandingOver => tokio::time::sleep(HEARING).await,
            _ => answers.send(&response(ServingStatus::NotServing)).await?,
        }
    }
    Err(Failure::Stopping.into())
}

fn serving(stage: Stage) -> ServingStatus {
    match stage {
        Stage::Open | Stage::HandingOver => ServingStatus::Serving,
        _ => ServingStatus::NotServing,
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status as i32,
    }
}
