import torch, lightning as L
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.g, self.d = nn.Linear(8, 16), nn.Linear(16, 1)
    def training_step(self, batch, i):
        og, od = self.optimizers()
        x = batch[0]
        self.toggle_optimizer(od)
        fake = self.g(torch.randn(x.size(0), 8, device=self.device))
        ld = F.softplus(self.d(fake.detach())).mean() + F.softplus(-self.d(x)).mean()
        od.zero_grad(); self.manual_backward(ld); od.step()
        self.untoggle_optimizer(od)
        self.toggle_optimizer(og)
        lg = F.softplus(-self.d(fake)).mean()
        og.zero_grad(); self.manual_backward(lg); og.step()
        self.untoggle_optimizer(og)
    def configure_optimizers(self):
        return torch.optim.Adam(self.g.parameters(), 1e-4), torch.optim.Adam(self.d.parameters(), 1e-4)
L.seed_everything(1)
data = DataLoader(TensorDataset(torch.randn(1000, 16)), batch_size=32, shuffle=True, num_workers=2)
L.Trainer(max_epochs=3, precision="bf16-mixed").fit(Lit(), data)
